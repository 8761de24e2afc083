//! Answers that come slowly, or stop to come: each limit of the pool ends them by its name.

use std::time::Duration;

use kvroute_router::config::PoolConfig;
use kvroute_testkit::Fault;

use super::site::{Question, Site};

/// What a limit is set to that is to be met.
const SHORT: Duration = Duration::from_millis(250);
/// What it is set to when another one is.
const LONG: Duration = Duration::from_secs(600);

/// Only one of them can be met.
fn only(limit: impl Fn(&mut PoolConfig)) -> impl Fn(&mut PoolConfig) {
    move |pool| {
        let timeouts = &mut pool.timeouts;
        (timeouts.first_byte, timeouts.idle, timeouts.total) = (LONG, LONG, LONG);
        limit(pool);
    }
}

/// What clients of the spoiled worker are told, by whether they asked for a stream. The fault is made from the length of
/// the right answer.
async fn ends(limit: impl Fn(&mut PoolConfig), fault: impl Fn(u64) -> Fault, mid_stream: bool) {
    let site = Site::start(&limit).await;
    for question in Question::all() {
        let fault = fault(loop_length(&site, question).await);
        site.spoiled().set(fault);
        let seen = site.ask(question.of_the_spoiled()).await;
        let expected = if question.stream && mid_stream { 200 } else { 504 };
        assert_eq!(seen.error(), (expected, "upstream_timeout"), "{fault:?} {question:?}");
    }
    site.spoiled().set(Fault::None);
    site.is_sound().await;
    site.stop().await;
}

/// Its length, whatever a busy machine makes of the first tries.
async fn loop_length(site: &Site, question: Question) -> u64 {
    site.spoiled().set(Fault::None);
    site.until_whole(question.of_the_spoiled()).await;
    site.spoiled().length()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_never_begins_meets_its_limit() {
    let first_byte = only(|pool| pool.timeouts.first_byte = SHORT);
    ends(&first_byte, |_| Fault::StallAt(0), false).await;
    ends(&first_byte, |_| Fault::StallAt(20), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_stops_in_its_middle_meets_the_limit_between_two_pieces() {
    ends(only(|pool| pool.timeouts.idle = SHORT), |length| Fault::StallAt(length - 30), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_never_ends_meets_the_limit_of_the_whole() {
    let drop_by_drop = Fault::Drip { bytes: 1, every: Duration::from_millis(10) };
    ends(only(|pool| pool.timeouts.total = SHORT), |_| drop_by_drop, false).await;
    ends(only(|pool| pool.timeouts.total = SHORT), |length| Fault::StallAt(length - 30), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_drips_is_whole() {
    let site = Site::start(only(|_| {})).await;
    for (bytes, every) in [(1, 0), (200, 1)] {
        site.spoiled().set(Fault::Drip { bytes, every: Duration::from_millis(every) });
        for question in Question::all() {
            assert!(site.ask(question.of_the_spoiled()).await.is_whole(), "{question:?}");
        }
    }
    site.is_sound().await;
    site.stop().await;
}
