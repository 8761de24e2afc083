//! An answer that ends at any of its bytes, by a reset or in good order: what its client gets is whole or says that it is not.
//!
//! A sample of all positions by a seed (`KVROUTE_FAULT_SEED`, 7 unless set); all of them in the long run.

use kvroute_testkit::Fault;
use rand::seq::IteratorRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::site::{Question, Seen, Site};

/// Positions of each answer in the short run, beside its first and its last ones.
const SAMPLE: usize = 24;

/// The two ways in which a connection ends.
const ENDS: [fn(u64) -> Fault; 2] = [Fault::ResetAt, Fault::EarlyEof];

fn sample(length: u64) -> Vec<u64> {
    let seed = std::env::var("KVROUTE_FAULT_SEED").map_or(7, |text| text.parse().unwrap());
    println!("positions of {length} bytes by KVROUTE_FAULT_SEED={seed}");
    let mut positions = (0..length).choose_multiple(&mut ChaCha8Rng::seed_from_u64(seed), SAMPLE);
    positions.extend([0, 1, length - 2, length - 1]);
    positions
}

fn all(length: u64) -> Vec<u64> {
    (0..length).collect()
}

/// What clients of the worker whose answers are cut see, position by position, and what those see whom the router may serve
/// elsewhere.
async fn cut(question: Question, positions: impl Fn(u64) -> Vec<u64>) {
    let site = Site::start(|_| {}).await;
    let length = site.length(question).await;
    for end in ENDS {
        let mut told = 0;
        for position in positions(length) {
            site.spoiled().set(end(position));
            let suffered = site.spoiled().suffered();
            let seen = site.ask(question.of_the_spoiled()).await;
            assert!(site.spoiled().suffered() > suffered, "{:?} of {length} never happened", end(position));
            if let Seen::Error(status, code) = &seen {
                assert!(is_of_a_cut(question, *status, code), "{:?} of {length}: {seen:?}", end(position));
                told += 1;
            } else {
                assert!(is_behind_its_end(question, position, length), "{:?}: {seen:?}", end(position));
            }
            site.ask(question).await;
        }
        assert!(told > 0, "no cut was ever told");
        site.spoiled().set(Fault::None);
        site.is_sound().await;
    }
    site.stop().await;
}

/// A stream that has begun can only tell of it in an event of its own.
fn is_of_a_cut(question: Question, status: u16, code: &str) -> bool {
    match (status, code) {
        (502, "upstream_broke") => true,
        (200, "upstream_broke_mid_stream") => question.stream,
        _ => false,
    }
}

/// Of a stream nothing is lost with what comes behind its end mark: a few bytes of the transfer.
fn is_behind_its_end(question: Question, position: u64, length: u64) -> bool {
    question.stream && position + 16 >= length
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_answer_is_told_wherever_it_is_cut() {
    for question in Question::all().filter(|question| !question.stream) {
        cut(question, sample).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_stream_is_told_wherever_it_is_cut() {
    for question in Question::all().filter(|question| question.stream) {
        cut(question, sample).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "every position of every answer; a part of the long run"]
async fn a_cut_answer_is_told_at_every_byte() {
    for question in Question::all() {
        cut(question, all).await;
    }
}
