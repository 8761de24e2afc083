use opentelemetry::Value;
use opentelemetry::trace::{SpanKind, Status};
use tokio::sync::mpsc::{Receiver, channel};
use tracing::{Span, debug_span};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use super::*;

/// Runs something with a layer whose queue has so much room; gives what is in the queue, and how many were dropped.
fn seen(room: usize, run: impl FnOnce()) -> (Receiver<SpanData>, u64) {
    let (sender, receiver) = channel(room);
    let losses = Losses::default();
    let subscriber = registry().with(SpanLayer::new(sender, losses.clone()).filtered());
    tracing::subscriber::with_default(subscriber, run);
    (receiver, losses.take())
}

fn request(sampled: bool) -> Span {
    debug_span!(
        target: SPANS,
        "request",
        trace_id = %"0af7651916cd43dd8448eb211c80319c",
        span_id = %"00f067aa0ba902b7",
        parent_id = %"b7ad6b7169203331",
        sampled,
        attempts = 3_u64,
        outcome = tracing::field::Empty,
    )
}

#[test]
fn a_span_is_sent_with_the_ids_that_it_names_and_what_came_later() {
    let (mut queue, dropped) = seen(9, || {
        let span = request(true);
        tracing::debug!(target: SPANS, parent: &span, "first_token");
        span.record("outcome", "failed");
    });
    let span = queue.try_recv().unwrap();
    assert_eq!(span.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(span.span_context.span_id().to_string(), "00f067aa0ba902b7");
    assert_eq!(span.parent_span_id.to_string(), "b7ad6b7169203331");
    assert!(span.parent_span_is_remote && span.span_context.is_sampled());
    assert_eq!((span.span_kind, span.status), (SpanKind::Server, Status::error("")));
    let attributes: Vec<_> =
        span.attributes.iter().map(|pair| (pair.key.as_str(), pair.value.clone())).collect();
    assert_eq!(attributes, [("attempts", Value::I64(3)), ("outcome", Value::from("failed".to_owned()))]);
    assert_eq!(span.events.iter().map(|event| event.name.as_ref()).collect::<Vec<_>>(), ["first_token"]);
    assert_eq!(dropped, 0);
}

#[test]
fn nobody_waits_for_a_queue_that_is_full_and_what_it_cannot_take_is_counted() {
    let (mut queue, dropped) = seen(2, || {
        for _ in 0..7 {
            request(true);
        }
    });
    assert_eq!((queue.len(), dropped), (2, 5));
    queue.close();
}

#[test]
fn what_is_not_sampled_or_not_a_request_is_none_of_it() {
    let (queue, dropped) = seen(9, || {
        request(false);
        tracing::error_span!("request", trace_id = %"1", span_id = %"2", sampled = true);
        tracing::error!(target: SPANS, "no span");
    });
    assert_eq!((queue.len(), dropped), (0, 0));
}

/// Here the clock that only goes forward runs ahead of the one on the wall.
#[tokio::test(start_paused = true)]
async fn a_dispatch_was_timed_by_another_clock_than_its_request() {
    let (sender, mut queue) = channel(9);
    let subscriber = registry().with(SpanLayer::new(sender, Losses::default()).filtered());
    let _seen = tracing::subscriber::set_default(subscriber);
    let hour = std::time::Duration::from_secs(3600);
    let request = request(true);
    tokio::time::advance(hour).await;
    drop(debug_span!(target: SPANS, parent: &request, "attempt", sampled = true));
    drop(request);
    let (attempt, request) = (queue.try_recv().unwrap(), queue.try_recv().unwrap());
    assert_eq!(attempt.start_time.duration_since(request.start_time).unwrap(), hour);
    assert!(attempt.end_time <= request.end_time);
}
