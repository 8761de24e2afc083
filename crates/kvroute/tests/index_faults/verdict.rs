//! Which lost tokens had an excuse.
//!
//! The router cannot explain a loss that nothing told it of, so tokens of an attempt are excused if, at some time
//! between its selection and its end, its engine knew that its events did not tell the truth. The engines' own
//! record of those times is the witness; the router's log names worker and time of every loss without a reason.

use std::collections::BTreeMap;
use std::time::Duration;

use kvroute_sim::UnseenPeriod;
use kvroute_testkit::LogEntry;
use tokio::time::Instant;

use super::ordeal::{Fault, Ordeal};
use super::traffic::Record;

/// What the router says of a loss that it cannot explain.
pub(crate) const UNEXPLAINED: &str = "reuse was lost without a known reason";

/// A loss is given up this long after its attempt closed.
const EXPLAINED_WITHIN: Duration = Duration::from_secs(1);

/// One attempt that lost tokens without a reason.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) worker: String,
    pub(crate) tokens: u64,
    pub(crate) selected: Instant,
    pub(crate) closed: Instant,
}

/// What the engines and the router say, worker by worker.
pub(crate) struct Evidence {
    unseen: BTreeMap<String, Vec<UnseenPeriod>>,
    journals: BTreeMap<String, Vec<(Instant, Fault)>>,
    began: Instant,
}

// === impl Loss ===

impl Loss {
    /// Reads a line of the router's log.
    pub(crate) fn read(entry: &LogEntry) -> Self {
        let number = |field: &str| -> u64 {
            let text = entry.field(field);
            text.parse().unwrap_or_else(|_| panic!("{field} of {entry:?} is no number"))
        };
        Self {
            worker: entry.field("worker").to_owned(),
            tokens: number("tokens"),
            selected: entry.at - Duration::from_millis(number("since_selection_ms")),
            closed: entry.at - EXPLAINED_WITHIN,
        }
    }
}

// === impl Evidence ===

impl Evidence {
    pub(crate) fn of(ordeals: &[Ordeal], began: Instant) -> Self {
        let of_each = |ordeal: &Ordeal| (ordeal.worker.clone(), ordeal.unseen());
        let journal = |ordeal: &Ordeal| (ordeal.worker.clone(), ordeal.journal.clone());
        Self {
            unseen: ordeals.iter().map(of_each).collect(),
            journals: ordeals.iter().map(journal).collect(),
            began,
        }
    }

    /// Whether a loss is one of these engines': tests of one process share the log.
    pub(crate) fn concerns(&self, loss: &Loss) -> bool {
        self.unseen.contains_key(&loss.worker)
    }

    pub(crate) fn excuses(&self, loss: &Loss) -> bool {
        // The log counts whole milliseconds.
        let selected = loss.selected - Duration::from_millis(1);
        let covers = |period: &UnseenPeriod| {
            period.from <= loss.closed && period.until.is_none_or(|until| until >= selected)
        };
        self.unseen.get(&loss.worker).is_some_and(|periods| periods.iter().any(covers))
    }

    /// How often each fault was injected.
    pub(crate) fn injected(&self) -> BTreeMap<Fault, usize> {
        let mut counts = BTreeMap::new();
        self.journals.values().flatten().for_each(|(_, fault)| *counts.entry(*fault).or_default() += 1);
        counts
    }

    /// What happened around a loss, for whoever has to find its cause.
    pub(crate) fn story_of(&self, loss: &Loss, records: &[Record]) -> String {
        let at = |instant: Instant| instant.saturating_duration_since(self.began).as_secs_f64();
        let near = |instant: Instant| (at(instant) - at(loss.selected)).abs() < 8.0;
        let mut lines = vec![format!(
            "{} tokens on {}, selected at {:.3} s, closed at {:.3} s",
            loss.tokens,
            loss.worker,
            at(loss.selected),
            at(loss.closed)
        )];
        for (when, fault) in self.journals.get(&loss.worker).into_iter().flatten() {
            if near(*when) {
                lines.push(format!("  {:.3} s {fault:?}", at(*when)));
            }
        }
        for period in self.unseen.get(&loss.worker).into_iter().flatten().filter(|period| near(period.from)) {
            lines.push(format!("  unseen {:.3} s to {:?} s", at(period.from), period.until.map(at)));
        }
        let during = |record: &&Record| record.sent <= loss.selected && record.ended >= loss.selected;
        for record in records.iter().filter(during) {
            if record.worker.as_deref().is_none_or(|worker| worker == loss.worker) {
                lines.push(format!(
                    "  request {:.3} s to {:.3} s, prompt {}, reused {:?}",
                    at(record.sent),
                    at(record.ended),
                    record.prompt,
                    record.reused
                ));
            }
        }
        lines.join("\n")
    }
}
