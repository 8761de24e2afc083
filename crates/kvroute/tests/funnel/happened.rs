//! What came to pass in a run: one in which something never happened proves nothing about it.

use kvroute_testkit::Exposition;

use super::books::Books;
use super::stage::{LOST, lost};
use super::world::Setting;

/// Something by its name, and how often it happened or how many tokens it cost.
pub(crate) type Happened = (String, u64);

/// Every outcome of a report and every loss.
pub(crate) fn losses(setting: &Setting, scrape: &Exposition) -> Vec<Happened> {
    let outcome = |outcome: &&str| {
        let count = scrape.count("kvroute_router_reuse_reports_total", &[("outcome", outcome)]);
        (format!("report {outcome}"), count)
    };
    let of_stage = |(stage, reasons): &(&str, &[&str])| -> Vec<Happened> {
        reasons.iter().map(|reason| (format!("{stage} {reason}"), lost(scrape, stage, reason))).collect()
    };
    let losses: Vec<_> = setting.reasons.iter().flat_map(of_stage).collect();
    let all: u64 = losses.iter().map(|(_, tokens)| tokens).sum();
    assert_eq!(all, scrape.count(LOST, &[]), "there are other reasons");
    setting.reports.iter().map(outcome).chain(losses).collect()
}

/// The moments at which requests end.
pub(crate) fn endings(books: &Books) -> Vec<Happened> {
    let ended = |outcome, attempts, status, report| books.ended(outcome, attempts, status, report);
    let endings = [
        ("left in line", ended("cancelled", 0, None, "")),
        ("left before the head", ended("cancelled", 1, None, "unfinished")),
        ("left in the middle", ended("cancelled", 1, Some(200), "unfinished")),
        ("left behind the report", ended("cancelled", 1, Some(200), "reported")),
        ("no room in the line", ended("rejected", 0, Some(429), "")),
        ("refused by the engine", ended("rejected", 1, Some(400), "unfinished")),
        ("the engine had too much", ended("rejected", 1, Some(429), "unfinished")),
        ("failed by the engine", ended("failed", 1, Some(507), "unfinished")),
        ("broken off in a stream", ended("failed", 1, Some(200), "unfinished")),
        ("never answered", ended("failed", 1, Some(504), "unfinished")),
        ("sent to another worker", books.tried_again()),
    ];
    endings.into_iter().map(|(ending, count)| (ending.to_owned(), count as u64)).collect()
}

/// Everything happened at least once.
pub(crate) fn assert_all(what: &[Happened]) {
    let never: Vec<_> = what.iter().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect();
    assert!(never.is_empty(), "never happened: {never:?}");
}
