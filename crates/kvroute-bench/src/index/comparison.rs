//! All indexes through all phases of one cell.
//!
//! Every phase runs for one index after the other before the next phase begins, and each repetition starts with
//! another index: what disturbs the machine for a second falls on all of them.

use anyhow::{Result, bail};

use super::chain::{Chain, DenseChain};
use super::dynamo::{Compressed, Plain};
use super::figures::{Cell, Quantity, median};
use super::kvroute::{FromHashes, FromTokens};
use super::measure::{Contest, Contestant};
use super::model::Model;
use super::workload::{Workload, blocks_of};

/// This project's index twice, given hashes and given tokens; the others are what it is held against.
const CONTESTANTS: [Contestant; 6] = [
    Contestant::of::<FromHashes>(),
    Contestant::of::<FromTokens>(),
    Contestant::of::<Compressed>(),
    Contestant::of::<Plain>(),
    Contestant::of::<DenseChain>(),
    Contestant::of::<Chain>(),
];

/// How many of them are this project's.
const OWN: usize = 2;

/// What to measure, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) cell: Cell,
    pub(crate) entries: usize,
    pub(crate) repetitions: usize,
    pub(crate) seed: u64,
    /// Parts of names of the indexes that others made; nothing for all.
    pub(crate) against: &'a [String],
}

/// All figures of one cell.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) cell: Cell,
    pub(crate) entries: usize,
    pub(crate) distinct: usize,
    pub(crate) contestants: Vec<Contestant>,
    /// By contestant, by quantity, one figure a repetition.
    figures: Vec<Vec<Vec<f64>>>,
}

struct Round<'a> {
    comparison: &'a mut Comparison,
    order: Vec<usize>,
}

// === impl Comparison ===

impl Comparison {
    /// Measures one cell.
    ///
    /// # Errors
    /// An index answered a lookup in another way than the model.
    pub(crate) fn run(plan: Plan<'_>) -> Result<Self> {
        let Plan { cell, entries, repetitions, seed, against } = plan;
        let chat = Workload::chat(cell.prompt, cell.workers, entries, seed);
        let shared = Workload::shared_by_all(cell.prompt, cell.workers, entries, seed);
        let contestants = contestants(against);
        let figures = vec![vec![Vec::new(); Quantity::ALL.len()]; contestants.len()];
        let mut comparison =
            Self { cell, entries: blocks_of(&chat.stores), distinct: chat.distinct(), contestants, figures };
        for number in 0..comparison.contestants.len() {
            let bytes = (comparison.contestants[number].bytes)(&chat);
            comparison.note(number, Quantity::Bytes, bytes / comparison.entries as f64);
        }
        for repetition in 0..repetitions {
            let mut order: Vec<usize> = (0..comparison.contestants.len()).collect();
            order.rotate_left(repetition % comparison.contestants.len());
            let mut round = Round { comparison: &mut comparison, order };
            let is_checked = repetition == 0;
            round.chat(&chat, is_checked)?;
            round.shared(&shared, is_checked)?;
        }
        Ok(comparison)
    }

    /// The median of the repetitions.
    pub(crate) fn figure(&self, contestant: usize, quantity: Quantity) -> f64 {
        median(self.repetitions(contestant, quantity))
    }

    /// The best figure of another index.
    pub(crate) fn best_other(&self, quantity: Quantity) -> f64 {
        quantity.best((OWN..self.contestants.len()).map(|other| self.figure(other, quantity)))
    }

    /// One figure a repetition.
    pub(crate) fn repetitions(&self, contestant: usize, quantity: Quantity) -> &[f64] {
        &self.figures[contestant][quantity as usize]
    }

    fn note(&mut self, contestant: usize, quantity: Quantity, figure: f64) {
        self.figures[contestant][quantity as usize].push(figure);
    }
}

// === impl Round ===

impl Round<'_> {
    fn chat(&mut self, workload: &Workload, is_checked: bool) -> Result<()> {
        let (first, second) = workload.halves();
        let mut model = Model::new(workload.workers);
        let mut contests = self.start(workload);
        self.each(&mut contests, |contest, note| note(Quantity::Store, contest.apply(first)));
        self.each(&mut contests, |contest, note| {
            let latency = contest.lookups();
            note(Quantity::LookupHalf, latency.half / 1e3);
            note(Quantity::LookupP99, latency.p99 / 1e3);
        });
        self.each(&mut contests, |contest, note| match contest.busy(second) {
            Some((stored, latency)) => {
                note(Quantity::BusyStore, stored);
                note(Quantity::BusyHalf, latency.half / 1e3);
                note(Quantity::BusyP99, latency.p99 / 1e3);
            }
            None => {
                contest.apply(second);
            }
        });
        if is_checked {
            model.apply(&workload.stores);
            self.check(&mut contests, &model, workload)?;
        }
        self.each(&mut contests, |contest, note| note(Quantity::Remove, contest.apply(&workload.removals)));
        if is_checked {
            model.apply(&workload.removals);
            self.check(&mut contests, &model, workload)?;
        }
        Ok(())
    }

    fn shared(&mut self, workload: &Workload, is_checked: bool) -> Result<()> {
        let mut contests = self.start(workload);
        for contest in &mut contests {
            contest.apply(&workload.stores);
        }
        self.each(&mut contests, |contest, note| {
            let latency = contest.lookups();
            note(Quantity::SharedHalf, latency.half / 1e3);
            note(Quantity::SharedP99, latency.p99 / 1e3);
        });
        if is_checked {
            let mut model = Model::new(workload.workers);
            model.apply(&workload.stores);
            self.check(&mut contests, &model, workload)?;
        }
        Ok(())
    }

    fn start(&self, workload: &Workload) -> Vec<Box<dyn Contest>> {
        self.comparison.contestants.iter().map(|contestant| (contestant.start)(workload)).collect()
    }

    fn each(
        &mut self,
        contests: &mut [Box<dyn Contest>],
        phase: impl Fn(&mut dyn Contest, &mut dyn FnMut(Quantity, f64)),
    ) {
        for &number in &self.order {
            let mut note = |quantity, figure| self.comparison.note(number, quantity, figure);
            phase(&mut *contests[number], &mut note);
        }
    }

    /// Asks every index every query, and compares the prefix of every worker.
    fn check(&self, contests: &mut [Box<dyn Contest>], model: &Model, workload: &Workload) -> Result<()> {
        for (query, expected) in model.answers(workload).enumerate() {
            for (contest, contestant) in contests.iter_mut().zip(&self.comparison.contestants) {
                if let Some(wrong) = contest.check(query, &expected) {
                    bail!(
                        "{} finds {} blocks of query {query} on worker {}; the model says {}",
                        contestant.name,
                        wrong.found,
                        wrong.worker,
                        wrong.expected
                    );
                }
            }
        }
        Ok(())
    }
}

/// This project's, and those of the others that are asked for.
fn contestants(against: &[String]) -> Vec<Contestant> {
    let (own, others) = CONTESTANTS.split_at(OWN);
    let is_asked_for = |contestant: &&Contestant| {
        against.is_empty() || against.iter().any(|part| contestant.name.contains(part.as_str()))
    };
    own.iter().chain(others.iter().filter(is_asked_for)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_agrees_with_the_model_after_stores_and_removals() {
        for (prompt, workers) in [(4, 7), (34, 3), (417, 70)] {
            let cell = Cell { prompt, workers };
            let plan = Plan { cell, entries: 6000, repetitions: 1, seed: 7, against: &[] };
            let comparison = Comparison::run(plan).unwrap();
            let is_measured = |quantity| !comparison.figure(0, quantity).is_nan();
            assert!(Quantity::ALL.into_iter().all(is_measured));
        }
    }
}
