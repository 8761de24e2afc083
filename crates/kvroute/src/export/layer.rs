//! Takes the spans of requests out of what the program logs.

use std::fmt;

use kvroute_router::SPANS;
use opentelemetry::InstrumentationScope;
use opentelemetry_sdk::trace::SpanData;
use tokio::sync::mpsc::Sender;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::clock::Clock;
use super::courier::Losses;
use super::draft::Draft;

/// Hands every span that has ended to the courier, or drops it where too many wait: no request waits for a collector.
#[derive(Debug)]
pub(crate) struct SpanLayer {
    queue: Sender<SpanData>,
    losses: Losses,
    scope: InstrumentationScope,
}

/// The words of an event.
#[derive(Default)]
struct Message(String);

// === impl SpanLayer ===

impl SpanLayer {
    pub(super) fn new(queue: Sender<SpanData>, losses: Losses) -> Self {
        let scope = InstrumentationScope::builder("kvroute").with_version(env!("CARGO_PKG_VERSION")).build();
        Self { queue, losses, scope }
    }

    /// The layer, which sees spans of requests and nothing else.
    pub(crate) fn filtered<S>(self) -> impl Layer<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        self.with_filter(Targets::new().with_target(SPANS, LevelFilter::DEBUG))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let of_parent = span.parent().and_then(|parent| parent.extensions().get().map(Draft::clock));
        let mut draft = Draft::new(attributes.metadata().name(), of_parent.unwrap_or_else(Clock::read));
        attributes.record(&mut draft);
        if draft.is_sampled() {
            span.extensions_mut().insert(draft);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(draft) = span.extensions_mut().get_mut::<Draft>()
        {
            values.record(draft);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(span) = context.event_span(event) else { return };
        let mut extensions = span.extensions_mut();
        let Some(draft) = extensions.get_mut::<Draft>() else { return };
        let mut message = Message::default();
        event.record(&mut message);
        draft.happened(message.0);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let draft = context.span(&id).and_then(|span| span.extensions_mut().remove::<Draft>());
        if let Some(draft) = draft
            && self.queue.try_send(draft.ended(&self.scope)).is_err()
        {
            self.losses.add(1);
        }
    }
}

// === impl Message ===

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests;
