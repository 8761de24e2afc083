use super::super::CandidateRecord;
use super::super::kept::MOST;
use super::super::tests::Seen;
use super::*;

fn log(sample: f64) -> DecisionLog {
    DecisionLog::new(&DecisionsConfig { sample, candidates: 8 })
}

fn record() -> DecisionRecord {
    Seen::of(1).record(8)
}

fn report() -> ReportRecord {
    ReportRecord {
        outcome: "completed",
        dispatched: true,
        report: Some("reported"),
        input_tokens: Some(1000),
        reused_tokens: Some(64),
        lost_tokens: Some(0),
    }
}

/// Keeps a decision, and gives its id as it is written.
fn put(log: &DecisionLog, record: DecisionRecord, request_id: &str) -> String {
    log.put(record, request_id).to_string()
}

fn ids(records: &[DecisionRecord]) -> Vec<&str> {
    records.iter().filter_map(|record| record.id.as_deref()).collect()
}

#[test]
fn a_decision_is_found_by_its_own_id_and_by_the_requests() {
    let log = log(1.0);
    let first = put(&log, record(), "req-1");
    let second = put(&log, record(), "req-2");
    assert_ne!(first, second);
    let found = log.find(&first).unwrap();
    assert_eq!((found.id.as_deref(), found.request_id.as_deref()), (Some(first.as_str()), Some("req-1")));
    assert_eq!(log.find("req-2").unwrap().id, Some(second));
    assert!(log.find("req-3").is_none());
}

#[test]
fn of_several_decisions_for_a_request_the_newest_is_found() {
    let log = log(1.0);
    put(&log, record(), "again");
    let newest = put(&log, record(), "again");
    put(&log, record(), "other");
    assert_eq!(log.find("again").unwrap().id, Some(newest));
}

#[test]
fn only_an_id_as_it_was_given_is_one() {
    let log = log(1.0);
    let id = put(&log, record(), "req");
    let (head, _) = id.rsplit_once('-').unwrap();
    for other in [format!("{head}-00"), format!("{head}-+0"), format!("{head}-1"), "d-0-0".to_owned()] {
        assert!(log.find(&other).is_none(), "{other}");
    }
    assert!(log.find(&id).is_some());
    assert!(DecisionLog::new(&DecisionsConfig::default()).find(&id).is_none(), "another pool's id");
}

#[test]
fn a_request_that_is_called_like_a_decision_is_still_found() {
    let log = log(1.0);
    let kept = put(&log, record(), "d-00000000-7");
    assert_eq!(log.find("d-00000000-7").unwrap().id, Some(kept));
}

#[test]
fn the_report_comes_later_and_only_to_its_own_decision() {
    let log = log(1.0);
    let (first, second) = (log.put(record(), "a"), log.put(record(), "b"));
    let report_of = |id: DecisionId| log.find(&id.to_string()).unwrap().report;
    assert_eq!(report_of(second), None);
    log.close(second, report());
    assert_eq!((report_of(first), report_of(second)), (None, Some(report())));
    log.close(DecisionId { number: 3, ..second }, report());
}

#[test]
fn the_newest_are_kept_and_listed_newest_first() {
    let (log, record) = (log(1.0), record());
    let given: Vec<_> =
        (0..CAPACITY + 3).map(|number| log.put(record.clone(), &format!("req-{number}"))).collect();
    let kept = log.latest(usize::MAX);
    assert_eq!(kept.len(), CAPACITY);
    let newest_first: Vec<_> = given.iter().rev().take(CAPACITY).map(DecisionId::to_string).collect();
    assert_eq!(ids(&kept), newest_first);
    assert_eq!(ids(&log.latest(2)), newest_first[..2]);
    assert!(log.latest(0).is_empty());

    assert!(log.find(&given[2].to_string()).is_none() && log.find("req-2").is_none(), "forgotten");
    log.close(given[2], report());
    log.close(given[3], report());
    assert!(log.find(&given[3].to_string()).unwrap().report.is_some(), "the oldest that is kept");
    assert!(log.latest(CAPACITY - 1).iter().all(|record| record.report.is_none()));
}

#[test]
fn a_second_has_room_for_so_many_and_the_next_one_again() {
    let log = log(1.0);
    let recorded = |second: u64| {
        let now = Duration::from_secs(second) + Duration::from_millis(400);
        (0..2 * A_SECOND).filter(|attempt| log.wants(AttemptId::new(*attempt), now)).count() as u64
    };
    assert_eq!([recorded(7), recorded(7), recorded(8)], [A_SECOND, 0, A_SECOND]);
}

#[test]
fn the_share_is_kept_by_the_attempts_own_number() {
    let wanted = |log: &DecisionLog| {
        let attempt = |number: &u64| log.wants(AttemptId::new(*number), Duration::from_secs(*number));
        (1..10_001).filter(attempt).collect::<Vec<_>>()
    };
    let quarter = wanted(&log(0.25));
    assert!((2_300..2_700).contains(&quarter.len()), "{}", quarter.len());
    assert_eq!(wanted(&log(0.25)), quarter, "the same ones each time");
    assert_eq!((wanted(&log(0.0)).len(), wanted(&log(1.0)).len()), (0, 10_000));
}

#[test]
fn the_logs_of_several_pools_are_read_as_one() {
    let (one, other) = (log(1.0), log(1.0));
    let mut old = record();
    old.at = 5;
    let first = put(&one, old.clone(), "same");
    old.at = 7;
    let second = put(&other, old.clone(), "same");
    old.at = 6;
    let third = put(&one, old, "third");
    let logs = || [&one, &other].into_iter();
    assert_eq!(ids(&latest(logs(), 10)), [second.as_str(), third.as_str(), first.as_str()]);
    assert_eq!(ids(&latest(logs(), 1)), [second.as_str()]);
    assert_eq!(find(logs(), "same").unwrap().id, Some(second));
    assert_eq!(find(logs(), &first).unwrap().id, Some(first));
}

#[test]
fn a_full_ring_stays_within_what_the_documentation_says() {
    let megabytes = |candidates: usize| {
        let record = size_of::<DecisionRecord>() + size_of::<Entry>() + 300; // The longest request id, and its text's own.
        let kept = candidates * size_of::<CandidateRecord>();
        (record + kept) * CAPACITY / 1_000_000
    };
    assert!(megabytes(8) <= 10 && megabytes(MOST) <= 60, "{} and {}", megabytes(8), megabytes(MOST));
}
