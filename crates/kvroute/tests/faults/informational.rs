//! What may come before an answer, and what may not come at all.

use kvroute_testkit::Fault;

use super::site::{Question, Site};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_precedes_an_answer_is_no_answer() {
    let site = Site::start(|_| {}).await;
    for status in [100, 102, 103, 199] {
        site.spoiled().set(Fault::Informational(status));
        for question in Question::all() {
            let suffered = site.spoiled().suffered();
            assert!(site.ask(question.of_the_spoiled()).await.is_whole(), "{status} {question:?}");
            assert_eq!(site.spoiled().suffered(), suffered + 1);
        }
    }
    site.is_sound().await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_protocol_that_nobody_asked_for_is_no_answer() {
    let site = Site::start(|_| {}).await;
    site.spoiled().set(Fault::Upgrade);
    for question in Question::all() {
        assert_eq!(site.ask(question.of_the_spoiled()).await.error(), (502, "upstream_broke"));
    }
    site.is_sound().await;
    site.stop().await;
}
