//! Bytes that are no answer, and answers that lie about their length.

use kvroute_testkit::Fault;

use super::site::{Question, Site};

/// What a client of the spoiled worker is told of it.
async fn is_no_answer(fault: Fault, questions: impl Iterator<Item = Question>) {
    let site = Site::start(|_| {}).await;
    site.spoiled().set(fault);
    for question in questions {
        let seen = site.ask(question.of_the_spoiled()).await;
        assert_eq!(seen.error(), (502, "upstream_broke"), "{fault:?} {question:?}");
        site.ask(question).await;
        site.ask(question).await;
    }
    assert!(site.spoiled().suffered() > 0);
    site.spoiled().set(Fault::None);
    site.is_sound().await;
    site.stop().await;
}

fn whole() -> impl Iterator<Item = Question> {
    Question::all().filter(|question| !question.stream)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_no_answer() {
    is_no_answer(Fault::Garbage, Question::all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_of_any_size_is_not_read_to_its_end() {
    is_no_answer(Fault::OversizedHeader(2 << 20), Question::all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_head_is_one() {
    let site = Site::start(|_| {}).await;
    site.spoiled().set(Fault::OversizedHeader(16 << 10));
    for question in Question::all() {
        assert!(site.ask(question.of_the_spoiled()).await.is_whole(), "{question:?}");
    }
    site.is_sound().await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_shorter_than_it_says_is_none() {
    is_no_answer(Fault::WrongLength(1), whole()).await;
}

/// The transport has nothing to object to it: only its content shows that a part of it is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_longer_than_it_says_is_none() {
    for missing in [1, 30] {
        is_no_answer(Fault::WrongLength(-missing), whole()).await;
    }
}
