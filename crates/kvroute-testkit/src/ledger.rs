//! The books of a router at rest: every equation of the cache-reuse funnel, held against one scrape.
//!
//! Counters of one attempt move one by one, so that the equations hold only while nothing is in flight and every loss
//! has its reason; [`crate::Fleet::at_rest`] waits for that. A family that does not exist counts as 0 in a sum, and what
//! must not exist is an equation of its own: missing is not zero.

mod account;
mod equation;
mod history;
mod process;

use std::collections::BTreeSet;

use crate::Exposition;
use account::Account;
use equation::Findings;

/// One scrape as an accountant reads it.
#[derive(Debug)]
pub struct Ledger<'a> {
    scrape: &'a Exposition,
    has_lost_workers: bool,
}

// === impl Ledger ===

impl<'a> Ledger<'a> {
    /// The books of a router that still has every worker it ever had.
    pub const fn of(scrape: &'a Exposition) -> Self {
        Self { scrape, has_lost_workers: false }
    }

    /// The same of a router whose workers may have left, and their series with them.
    pub const fn after_departures(scrape: &'a Exposition) -> Self {
        Self { scrape, has_lost_workers: true }
    }

    /// Every equation that does not hold, by its name and with both sides; empty if the books are in order.
    pub fn faults(&self) -> Vec<String> {
        let mut findings = Findings::default();
        for (phase, model) in self.accounts() {
            Account::new(self.scrape, &phase, &model).check(&mut findings);
        }
        process::check(self.scrape, self.has_lost_workers, &mut findings);
        history::check(self.scrape, &mut findings);
        findings.into_faults()
    }

    /// Fails the test that asks, unless every equation holds.
    pub fn assert_closes(&self) {
        let faults = self.faults();
        assert!(faults.is_empty(), "the books do not close:\n{}", faults.join("\n"));
    }

    /// Every phase and model that attempts are counted for.
    fn accounts(&self) -> BTreeSet<(String, String)> {
        let attempts = self.scrape.family("kvroute_attempts_total");
        attempts.into_iter().map(|(labels, _)| (labels["phase"].clone(), labels["model"].clone())).collect()
    }
}

#[cfg(test)]
mod tests;
