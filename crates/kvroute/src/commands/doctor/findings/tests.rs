use kvroute_core::{BlockSize, DpRank, Figure, ReportSource, WorkerReport};
use kvroute_engine::events::EventAddress;
use kvroute_engine::fuzz::{probe_answers, told_load};
use kvroute_engine::{EngineKind, LoadError};

use super::*;
use crate::commands::doctor::collected::{
    Examined, HeardEvents, Parity, StreamCheck, Trial, TrialResult, Verdict,
};
use crate::commands::doctor::finding::{Diagnosis, Severity};
use crate::commands::doctor::subjects::{Counting, Settings, Subject};

/// A worker with blocks of 16 tokens that lacks nothing: a prompt of 40 tokens, of which the second time 32 were reused.
fn well() -> Examined {
    let models = r#"{"data":[{"id":"m","owned_by":"sglang","max_model_len":4096}]}"#;
    let info = r#"{"page_size":16,"dp_size":1,"enable_cache_report":true,"disable_radix_cache":false}"#;
    let mut probe = probe_answers(EngineKind::Sglang, [models.as_bytes(), info.as_bytes()]).unwrap();
    probe.can_tokenize = true;
    let loads = br#"{"loads":[{"dp_rank":0,"num_running_reqs":0,"num_waiting_reqs":0}]}"#;
    let load = told_load(EngineKind::Sglang, 0, loads).unwrap();
    Examined {
        probe,
        load: Ok(load),
        streams: vec![stream()],
        trial: Trial::Done(tried(40, Some(32))),
        parity: Parity::Off,
    }
}

fn stream() -> StreamCheck {
    let heard = HeardEvents { messages: 1, blocks: 2, block_size: Some(BlockSize::DEFAULT), unreadable: 0 };
    StreamCheck {
        dp_rank: DpRank::new(0),
        address: EventAddress::Connect("tcp://127.0.0.1:5557".parse().unwrap()),
        live: Ok(()),
        replay: Some(Ok(())),
        heard: Some(heard),
    }
}

fn tried(prompt: u64, reused: Option<u64>) -> TrialResult {
    let report = |reused: u64| WorkerReport {
        source: ReportSource::Usage,
        prompt: Figure::Count(prompt),
        reused: Figure::Count(reused),
    };
    TrialResult { prompt_tokens: Some(prompt), counted_tokens: None, warm: reused.map(report) }
}

fn patient(examined: Examined) -> Patient {
    let subject = Subject {
        url: "http://a:8000".to_owned(),
        model: None,
        settings: Settings::default(),
        tokenizer: Counting::Off,
    };
    Patient { subject, examined: Ok(examined) }
}

fn codes(examined: Examined) -> Vec<String> {
    of_worker(&patient(examined)).into_iter().map(|finding| finding.code.into_owned()).collect()
}

/// Codes found once a change was made to a worker that lacks nothing.
fn with(change: impl FnOnce(&mut Examined)) -> Vec<String> {
    let mut examined = well();
    change(&mut examined);
    codes(examined)
}

#[test]
fn nothing_is_found_at_a_worker_that_lacks_nothing() {
    assert_eq!(codes(well()), [""; 0]);
}

#[test]
fn three_causes_of_no_hits_are_told_apart() {
    let short = |examined: &mut Examined| examined.trial = Trial::Done(tried(16, Some(0)));
    assert_eq!(with(short), ["prompt_under_block"]);
    let mute = |examined: &mut Examined| examined.streams[0].heard = Some(HeardEvents::default());
    assert_eq!(with(mute), ["events_silent"]);
    let uncounted = |examined: &mut Examined| {
        examined.parity = Parity::NoTokenizer;
        examined.probe.can_tokenize = false;
    };
    assert_eq!(with(uncounted), ["no_tokenizer"]);
}

#[test]
fn a_prompt_one_token_longer_than_a_block_must_be_reused() {
    assert_eq!(with(|examined| examined.trial = Trial::Done(tried(17, Some(0)))), ["not_reused"]);
    assert_eq!(with(|examined| examined.trial = Trial::Done(tried(17, Some(16)))), [""; 0]);
}

#[test]
fn silence_is_expected_of_a_prompt_without_a_whole_block() {
    let short = |prompt| {
        move |examined: &mut Examined| {
            examined.trial = Trial::Done(tried(prompt, Some(1)));
            examined.streams[0].heard = Some(HeardEvents::default());
        }
    };
    assert_eq!(with(short(15)), [""; 0]);
    assert_eq!(with(short(16)), ["events_silent"]);
}

#[test]
fn no_report_is_not_a_report_of_zero() {
    assert_eq!(with(|examined| examined.trial = Trial::Done(tried(40, None))), ["reuse_not_reported"]);
    assert_eq!(with(|examined| examined.trial = Trial::Done(tried(40, Some(0)))), ["not_reused"]);
}

#[test]
fn a_worker_that_caches_nothing_is_told_so_once() {
    let uncached = |examined: &mut Examined| {
        examined.probe.caches_prefixes = Some(false);
        examined.trial = Trial::Done(tried(40, Some(0)));
    };
    assert_eq!(with(uncached), ["no_prefix_caching"]);
}

#[test]
fn a_count_that_is_not_ours_is_named_with_both_numbers() {
    let mut examined = well();
    examined.trial = Trial::Done(TrialResult { counted_tokens: Some(39), ..tried(40, Some(32)) });
    let found = of_worker(&patient(examined));
    assert_eq!(found[0].code, "count_differs");
    assert!(found[0].message.contains("40 tokens") && found[0].message.contains("39 here"), "{found:?}");
}

#[test]
fn what_comes_on_a_socket_and_is_no_event_is_named() {
    let foreign = |examined: &mut Examined| {
        examined.streams[0].heard =
            Some(HeardEvents { messages: 3, blocks: 2, block_size: None, unreadable: 1 });
    };
    assert_eq!(with(foreign), ["events_unreadable"]);
}

#[test]
fn the_size_of_the_blocks_that_were_heard_is_compared_with_the_size_that_was_told() {
    let other = |examined: &mut Examined| {
        let block_size = Some(BlockSize::new(64).unwrap());
        examined.streams[0].heard = Some(HeardEvents { messages: 1, blocks: 2, block_size, unreadable: 0 });
    };
    assert_eq!(with(other), ["contradicting_block_size"]);
}

#[test]
fn questions_that_failed_are_named_and_no_load_is_a_hint() {
    assert_eq!(with(|examined| examined.probe.unanswered = vec!["/server_info"]), ["unanswered"]);
    let untold = |examined: &mut Examined| examined.load = Err(LoadError::Untold { path: "/v1/loads" });
    assert_eq!(with(untold), ["load_untold"]);
}

#[test]
fn images_that_nobody_can_ask_about_are_named_once_some_came() {
    let images = |seen: Option<u64>, told: Option<bool>| {
        with(|examined| {
            examined.probe.engine = EngineKind::Vllm;
            examined.probe.items_seen = seen;
            examined.probe.can_render = told;
        })
    };
    let quiet = images(None, Some(false));
    assert!(!quiet.contains(&"images_uncounted".to_owned()));
    assert_eq!(images(Some(0), Some(false)), quiet);
    assert_eq!(images(Some(3), Some(true)), quiet);
    assert_eq!(images(Some(3), None), quiet);
    assert!(images(Some(3), Some(false)).contains(&"images_uncounted".to_owned()));
}

#[test]
fn a_verdict_needs_an_event_and_a_report() {
    let verdict = |blocks, reused| {
        let mut examined = well();
        examined.streams[0].heard = Some(HeardEvents { blocks, ..HeardEvents::default() });
        examined.trial = Trial::Done(tried(40, reused));
        examined.verdict()
    };
    assert_eq!(verdict(2, Some(32)), Verdict::Proved);
    assert_eq!(verdict(0, Some(32)), Verdict::ReportsOnly);
    assert_eq!((verdict(2, Some(0)), verdict(2, None)), (Verdict::EventsOnly, Verdict::EventsOnly));
    assert_eq!(verdict(0, None), Verdict::Failed);
    let mut refused = well();
    refused.trial = Trial::Refused("500".to_owned());
    assert_eq!(refused.verdict(), Verdict::Failed);
}

#[test]
fn the_worst_comes_first_and_hints_do_not_count_as_faults() {
    let mut examined = well();
    examined.load = Err(LoadError::Untold { path: "/v1/loads" });
    examined.streams[0].live = Err("refused".to_owned());
    examined.probe.unanswered = vec!["/v1/loads"];
    let diagnosis = Diagnosis::of(&[patient(examined)]);
    let codes: Vec<_> = diagnosis.workers[0].iter().map(|finding| finding.code.as_ref()).collect();
    assert_eq!(codes, ["events_unreachable", "unanswered", "load_untold"]);
    assert_eq!((diagnosis.count_from(Severity::Warning), diagnosis.count_from(Severity::Hint)), (2, 3));
}
