//! The interface that all policies share, and the registry that knows them by name.
//!
//! Picking and having placed are two calls: a pick that is only advice must leave no trace, so `pick` changes
//! nothing and `placed` tells the policy that an attempt really went there.

mod choose;
mod kv;
mod least_loaded;
mod random;
mod round_robin;

use std::fmt;

use rand::RngCore;

use kvroute_core::RankSlot;

use crate::{Candidate, Cost, RequestShape};

/// A way to choose among eligible candidates. Deterministic, given the random numbers.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Name in configuration, metrics and explanations.
    fn name(&self) -> &'static str;

    /// True if it looks at the candidates' cached prefixes, so that the index must be asked.
    fn uses_index(&self) -> bool;

    /// Picks one eligible candidate and changes nothing.
    ///
    /// `costs` is replaced by one cost a candidate, `None` for an excluded one; it stays empty where the
    /// policy weighs no cost. Callers keep the vector between decisions.
    fn pick(
        &self,
        request: &RequestShape,
        candidates: &[Candidate],
        costs: &mut Vec<Option<Cost>>,
        rng: &mut dyn RngCore,
    ) -> Result<Pick, NoCandidate>;

    /// Tells that an attempt was placed on a rank.
    fn placed(&mut self, slot: RankSlot) {
        let _ = slot;
    }
}

/// The outcome of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Position in the slice of candidates.
    pub candidate: usize,
    /// Why this one.
    pub reason: PickReason,
}

/// Why a candidate was picked: a closed set, used as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PickReason {
    /// No other candidate was eligible.
    OnlyCandidate,
    /// Its cost was lower than every other's.
    LowestCost,
    /// Drawn from several with an equal lowest cost.
    Tie,
    /// Sampled by cost at a temperature above 0.
    Sampled,
    /// It was its turn.
    Turn,
    /// Drawn at random.
    Random,
}

/// Every candidate is excluded, or there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no worker is eligible")]
pub struct NoCandidate;

/// The configuration names a policy that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy `{name}`, known are {}{}", names.join(", "), suggestion(*nearest))]
pub struct UnknownPolicy {
    /// What was asked for.
    pub name: String,
    /// The known names.
    pub names: &'static [&'static str],
    /// The known name that was probably meant.
    pub nearest: Option<&'static str>,
}

type Make = fn() -> Box<dyn Policy>;

/// Every policy: its name and how to make one.
const REGISTRY: [(&str, Make); 4] = [
    (kv::NAME, || Box::new(kv::Kv)),
    (round_robin::NAME, || Box::new(round_robin::RoundRobin::default())),
    (random::NAME, || Box::new(random::Random)),
    (least_loaded::NAME, || Box::new(least_loaded::LeastLoaded)),
];

/// Names of all policies.
pub const NAMES: &[&str] = &names();

/// How alike two names must be (Jaro-Winkler, 0 to 1) to suggest one for the other.
const ALIKE: f64 = 0.75;

/// A fresh policy of that name.
pub fn by_name(name: &str) -> Result<Box<dyn Policy>, UnknownPolicy> {
    match REGISTRY.iter().find(|(known, _)| *known == name) {
        Some((_, make)) => Ok(make()),
        None => Err(UnknownPolicy { name: name.to_owned(), names: NAMES, nearest: nearest(name) }),
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default()
}

const fn names() -> [&'static str; REGISTRY.len()] {
    let mut names = [""; REGISTRY.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = REGISTRY[index].0;
        index += 1;
    }
    names
}

fn nearest(name: &str) -> Option<&'static str> {
    let spelled = name.to_ascii_lowercase();
    let likeness = |known: &str| strsim::jaro_winkler(&spelled, known);
    let best = NAMES.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) >= ALIKE).then_some(best)
}

// === impl PickReason ===

impl PickReason {
    /// Every reason.
    pub const ALL: [Self; 6] =
        [Self::OnlyCandidate, Self::LowestCost, Self::Tie, Self::Sampled, Self::Turn, Self::Random];

    /// The label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OnlyCandidate => "only_candidate",
            Self::LowestCost => "lowest_cost",
            Self::Tie => "tie",
            Self::Sampled => "sampled",
            Self::Turn => "turn",
            Self::Random => "random",
        }
    }
}

#[cfg(test)]
mod tests;
