//! Requests that a worker fails.

use std::time::Duration;

use kvroute_sim::Faults;

use super::watched::{CHAT, OF_AN_ATTEMPT, Watched, assert_says, chat, faulty, streamed};

/// What is known of every attempt that was made.
fn known(line: &kvroute_testkit::LogEntry, but: &[&str]) {
    for field in OF_AN_ATTEMPT.iter().filter(|field| !but.contains(field)) {
        assert!(line.fields.contains_key(*field), "no {field} in {line:?}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_was_answered_and_has_failed() {
    let breaks = Faults { break_after_chunks: Some(2), ..Faults::default() };
    let watched = Watched::start("broken_stream", faulty(breaks)).await;
    let (_, line) = watched.told("one", CHAT, &streamed("hello")).await;
    let expected = [
        ("status", "200"),
        ("outcome", "failed"),
        ("error", "upstream_broke_mid_stream"),
        ("attempts", "1"),
        ("report", "unfinished"),
    ];
    assert_says(&line, &expected, &["reused_tokens"]);
    known(&line, &["reused_tokens"]);
    assert!(line.fields.contains_key("ttft_seconds"), "{line:?}");
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn an_answer_that_breaks_before_its_first_byte_is_a_502() {
    let breaks = Faults { break_after_chunks: Some(1), ..Faults::default() };
    let watched = Watched::start("broken_answer", faulty(breaks)).await;
    let (answer, line) = watched.told("one", CHAT, &chat("hello")).await;
    assert_eq!(answer.status, 502);
    assert_says(
        &line,
        &[("status", "502"), ("outcome", "failed"), ("error", "upstream_broke")],
        &["ttft_seconds", "output_tokens", "reused_tokens"],
    );
    known(&line, &["reused_tokens"]);
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn a_worker_that_hangs_is_a_504() {
    let hangs = faulty(Faults { hang: true, ..Faults::default() });
    let impatient = |config: &mut kvroute_server::ServeConfig| {
        config.router.pools[0].timeouts.first_byte = Duration::from_millis(200);
    };
    let watched = Watched::start_with("hangs", hangs, impatient).await;
    let (_, line) = watched.told("one", CHAT, &streamed("hello")).await;
    assert_says(&line, &[("status", "504"), ("outcome", "failed"), ("error", "upstream_timeout")], &[]);
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn an_engines_own_refusal_is_no_error_of_the_router() {
    let watched =
        Watched::start("refused", faulty(Faults { refuse_status: Some(418), ..Faults::default() })).await;
    let (_, line) = watched.told("one", CHAT, &chat("hello")).await;
    assert_says(&line, &[("status", "418"), ("outcome", "rejected"), ("attempts", "1")], &["error"]);
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn an_engines_own_failure_passes_and_is_one() {
    let fails = Faults { refuse_status: Some(500), ..Faults::default() };
    let watched = Watched::start("engines_fault", faulty(fails)).await;
    let (_, line) = watched.told("one", CHAT, &chat("hello")).await;
    assert_says(&line, &[("status", "500"), ("outcome", "failed"), ("attempts", "1")], &["error"]);
    watched.agrees().await;
    watched.stop().await;
}
