use std::future::pending;

use kvroute_funnel::Close;
use tokio::time::{advance, sleep};

use super::*;

fn kept() -> (Trail, Arc<Story>) {
    let (trace, id) = (TraceContext::of(&HeaderMap::new(), 1.0), HeaderValue::from_static("id"));
    let record = AccessRecord::new(id, trace, Endpoint::ChatCompletions, Instant::now());
    let story = Arc::new(Story { span: Span::none(), record: Mutex::new(record) });
    (Trail { trace, story: Some(Arc::clone(&story)) }, story)
}

fn queued(story: &Story) -> Option<Duration> {
    story.record.lock().queued
}

#[tokio::test(start_paused = true)]
async fn a_step_that_need_not_wait_has_not_waited() {
    let (trail, story) = kept();
    trail.waits(async {}).await;
    advance(Duration::from_secs(5)).await;
    trail.waits(async {}).await;
    assert_eq!(queued(&story), None);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_all_waits_is_told() {
    let (trail, story) = kept();
    trail.waits(sleep(Duration::from_secs(2))).await;
    trail.waits(async {}).await;
    trail.waits(sleep(Duration::from_secs(3))).await;
    assert_eq!(queued(&story), Some(Duration::from_secs(5)));
}

#[tokio::test(start_paused = true)]
async fn who_leaves_while_it_waits_has_waited_until_then() {
    let (trail, story) = kept();
    tokio::select! {
        () = trail.waits(pending()) => {}
        () = sleep(Duration::from_secs(7)) => {}
    }
    assert_eq!(queued(&story), Some(Duration::from_secs(7)));
}

#[test]
fn where_nobody_listens_nothing_is_gathered() {
    let (trace, id) = (TraceContext::of(&HeaderMap::new(), 1.0), HeaderValue::from_static("id"));
    let trail = Trail::begin(trace, &id, Endpoint::ChatCompletions, Instant::now());
    assert!(trail.story.is_none() && trail.span().is_disabled());
    let attempt = trail.attempt(Phase::Aggregated, || unreachable!("nobody wants to know"));
    let mut headers = HeaderMap::new();
    attempt.propagate(&mut headers);
    assert!(headers.contains_key("traceparent"));
}

#[tokio::test]
async fn pieces_stand_for_tokens_only_in_a_stream_that_nobody_counted() {
    let closing =
        Closing { close: Close::Completed, dispatched: true, outcome: None, reused: None, observation: None };
    let output = |stream: bool, counted: Option<u64>, pieces: u64| {
        let (trail, story) = kept();
        trail.asks(Some("m"), stream);
        let attempt =
            AttemptTrail { trail, phase: Phase::Aggregated, id: SpanId::random(), span: Span::none() };
        attempt.closed(&closing, counted.map(Tokens::new), Tokens::new(pieces));
        story.record.lock().output.map(Tokens::get)
    };
    assert_eq!(
        [output(true, Some(7), 3), output(true, None, 3), output(true, None, 0)],
        [Some(7), Some(3), None]
    );
    assert_eq!([output(false, Some(7), 1), output(false, None, 1)], [Some(7), None]);
}
