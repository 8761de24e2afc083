//! One span while it is open: ids, values and events, as they come.

use std::fmt;

use kvroute_router::{ATTEMPT, REQUEST};
use opentelemetry::trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, Key, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use tracing::field::{Field, Visit};

use super::clock::{Clock, Moment};

/// What is known of a span.
#[derive(Debug)]
pub(super) struct Draft {
    trace: u128,
    id: u64,
    parent: u64,
    is_sampled: bool,
    has_failed: bool,
    name: &'static str,
    clock: Clock,
    started: Moment,
    attributes: Vec<KeyValue>,
    events: Vec<Event>,
}

// === impl Draft ===

impl Draft {
    /// A span that begins now, by this clock.
    pub(super) fn new(name: &'static str, clock: Clock) -> Self {
        Self {
            trace: 0,
            id: 0,
            parent: 0,
            is_sampled: false,
            has_failed: false,
            name,
            clock,
            started: clock.now(),
            attributes: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Whether its trace is kept.
    pub(super) const fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// The clock that times it, and whatever is a part of it.
    pub(super) const fn clock(&self) -> Clock {
        self.clock
    }

    /// Something happened in it now.
    pub(super) fn happened(&mut self, what: String) {
        self.events.push(Event::new(what, self.clock.now(), Vec::new(), 0));
    }

    /// The span as it is sent; it ends now.
    pub(super) fn ended(self, scope: &InstrumentationScope) -> SpanData {
        let (trace, id) = (TraceId::from(self.trace), SpanId::from(self.id));
        let mut events = SpanEvents::default();
        events.events = self.events;
        let is_request = self.name == REQUEST;
        SpanData {
            span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::default()),
            parent_span_id: SpanId::from(self.parent),
            parent_span_is_remote: is_request && self.parent != 0,
            span_kind: if self.name == ATTEMPT { SpanKind::Client } else { SpanKind::Server },
            name: self.name.into(),
            start_time: self.started,
            end_time: self.clock.now(),
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events,
            links: SpanLinks::default(),
            status: if self.has_failed { Status::error("") } else { Status::Unset },
            instrumentation_scope: scope.clone(),
        }
    }

    fn keep(&mut self, field: &Field, value: impl Into<Value>) {
        self.attributes.push(KeyValue::new(Key::from_static_str(field.name()), value));
    }
}

impl Visit for Draft {
    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "sampled" => self.is_sampled = value,
            _ => self.keep(field, value),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.has_failed |= (field.name(), value) == ("outcome", "failed");
        self.keep(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        let id = || u64::from_str_radix(&text, 16).unwrap_or_default();
        match field.name() {
            "trace_id" => self.trace = u128::from_str_radix(&text, 16).unwrap_or_default(),
            "span_id" => self.id = id(),
            "parent_id" => self.parent = id(),
            _ => self.keep(field, text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The clock on the wall is read once, so any jump behind that is as if it had been read wrong.
        #[test]
        fn a_span_lasts_as_long_as_it_did_and_is_where_its_parent_is(
            read in 0_u64..1_000_000_000_000, before in 0_u64..10_000, inside in 0_u64..10_000, behind in 0_u64..10_000,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            runtime.unwrap().block_on(async {
                let pass = |millis| tokio::time::advance(Duration::from_millis(millis));
                let clock = Clock::set_to(UNIX_EPOCH + Duration::from_secs(read));
                let mut request = Draft::new(REQUEST, clock);
                pass(before).await;
                let attempt = Draft::new(ATTEMPT, request.clock());
                pass(inside).await;
                request.happened("first_token".to_owned());
                let attempt = attempt.ended(&InstrumentationScope::default());
                pass(behind).await;
                let request = request.ended(&InstrumentationScope::default());
                let since_start = |time: Moment| time.duration_since(request.start_time).unwrap().as_millis();
                let times = [
                    attempt.start_time, request.events.events[0].timestamp, attempt.end_time, request.end_time,
                ];
                let expected = [before, before + inside, before + inside, before + inside + behind];
                prop_assert_eq!(times.map(since_start), expected.map(u128::from));
                Ok(())
            })?;
        }
    }
}
