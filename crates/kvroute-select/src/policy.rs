//! The interface that all policies share, and the registry that knows them by name.
//!
//! Picking and having placed are two calls: a pick that is only advice must leave no trace, so `pick` changes
//! nothing and `placed` tells the policy that an attempt really went there.

mod choose;
mod consistent_hash;
mod direct;
mod kv;
mod least_loaded;
mod power_of_two;
mod random;
mod round_robin;
mod sticky;

use std::fmt;
use std::time::Duration;

use rand::RngCore;

use kvroute_core::RankKey;

use crate::{Affinity, Candidate, Cost, Exclusion, RequestShape};

/// A way to choose among eligible candidates. Deterministic, given the random numbers.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Name in configuration, metrics and explanations.
    fn name(&self) -> &'static str;

    /// True if it looks at the candidates' cached prefixes, so that the index must be asked.
    fn uses_index(&self) -> bool;

    /// Every reason that it gives for a pick: a closed set, so that each has a series from the start.
    fn reasons(&self) -> &'static [PickReason];

    /// Whether it has a rule of its own where requests may go: if not, [`Policy::bound`] need not be asked.
    fn binds(&self) -> bool {
        false
    }

    /// Where a request that names no rank may go by the policy's own rule, whoever has room.
    fn bound(&self, affinity: &Affinity, now: Duration) -> Bound {
        let _ = (affinity, now);
        Bound::Free
    }

    /// Excludes the candidates that a request must not go to by the policy's own rule. Changes nothing else.
    /// Comes before every pick.
    fn restrict(&self, request: &RequestShape, candidates: &mut [Candidate]) {
        match bound(self, request, candidates) {
            Bound::Free => {}
            Bound::Home(home, _) => {
                let others = candidates.iter_mut().filter(|candidate| candidate.key != home);
                others.for_each(|candidate| candidate.exclude(Exclusion::Affinity));
            }
            Bound::Nowhere(_) => {
                candidates.iter_mut().for_each(|candidate| candidate.exclude(Exclusion::Pinned));
            }
        }
    }

    /// Why its own rule leaves no candidate to the request, asked after [`Policy::restrict`] where none was left; `None`
    /// where that is not the policy's doing.
    fn why_none(&self, request: &RequestShape, candidates: &[Candidate]) -> Option<Refusal> {
        match bound(self, request, candidates) {
            Bound::Free => None,
            Bound::Home(_, refusal) | Bound::Nowhere(refusal) => Some(refusal),
        }
    }

    /// Picks one eligible candidate and changes nothing.
    ///
    /// `costs` is replaced by one cost a candidate, `None` for one that is excluded or was not weighed; it stays empty
    /// where the policy weighs no cost. Callers keep the vector between decisions.
    fn pick(
        &self,
        request: &RequestShape,
        candidates: &[Candidate],
        costs: &mut Vec<Option<Cost>>,
        rng: &mut dyn RngCore,
    ) -> Result<Pick, NoCandidate>;

    /// Tells that the request was placed on a rank.
    fn placed(&mut self, request: &RequestShape, rank: &Candidate) {
        let _ = (request, rank);
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
    /// The less loaded of two that were drawn at random.
    LessLoadedOfTwo,
    /// Its session, or prompts with its head, belong there.
    Home,
    /// It belongs elsewhere, where there is too much already.
    Spilled,
    /// It starts a session, or has none.
    NewSession,
    /// Its session's rank could not be used.
    Moved,
    /// The caller named it.
    Pinned,
}

/// Where a request may go by the rule of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Wherever there is room.
    Free,
    /// To this rank alone, as long as it belongs to the pool. The refusal is for when it cannot be used.
    Home(RankKey, Refusal),
    /// To no rank at all.
    Nowhere(Refusal),
}

/// Every candidate is excluded, or there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no worker is eligible")]
pub struct NoCandidate;

/// A request that a policy places nowhere, though there are ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What is in the way and the remedy, for the caller.
    pub message: &'static str,
    /// Whether it may be placed later, once a rank can be used again. If not, waiting is in vain.
    pub may_pass: bool,
}

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

/// What some policies may be told; the others do not look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyOptions {
    /// How long `sticky` keeps a session that says nothing.
    pub session_ttl: Duration,
    /// Whether `sticky` lets a session wait for its rank instead of moving it.
    pub hard_sessions: bool,
}

type Make = fn(&PolicyOptions) -> Box<dyn Policy>;

/// Every policy: its name and how to make one.
const REGISTRY: &[(&str, Make)] = &[
    (kv::NAME, |_| Box::new(kv::Kv)),
    (round_robin::NAME, |_| Box::new(round_robin::RoundRobin::default())),
    (random::NAME, |_| Box::new(random::Random)),
    (power_of_two::NAME, |_| Box::new(power_of_two::PowerOfTwo)),
    (least_loaded::NAME, |_| Box::new(least_loaded::LeastLoaded)),
    (consistent_hash::NAME, |_| Box::new(consistent_hash::ConsistentHash)),
    (sticky::NAME, |options| Box::new(sticky::Sticky::new(options))),
    (direct::NAME, |_| Box::new(direct::Direct)),
];

/// Names of all policies.
pub const NAMES: &[&str] = &names();

/// How alike two names must be (Jaro-Winkler, 0 to 1) to suggest one for the other.
const ALIKE: f64 = 0.75;

/// A fresh policy of that name.
pub fn by_name(name: &str, options: &PolicyOptions) -> Result<Box<dyn Policy>, UnknownPolicy> {
    match REGISTRY.iter().find(|(known, _)| *known == name) {
        Some((_, make)) => Ok(make(options)),
        None => Err(UnknownPolicy { name: name.to_owned(), names: NAMES, nearest: nearest(name) }),
    }
}

/// The policy that goes by booked work alone.
pub(crate) fn by_load() -> Box<dyn Policy> {
    Box::new(least_loaded::LeastLoaded)
}

/// The bound of a request among these candidates: a home that is none of them binds nobody.
fn bound<P: Policy + ?Sized>(policy: &P, request: &RequestShape, candidates: &[Candidate]) -> Bound {
    if request.is_pinned || !policy.binds() {
        return Bound::Free;
    }
    match policy.bound(&request.affinity, request.now) {
        Bound::Home(home, _) if candidates.iter().all(|candidate| candidate.key != home) => Bound::Free,
        bound => bound,
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

// === impl PolicyOptions ===

impl Default for PolicyOptions {
    fn default() -> Self {
        Self { session_ttl: Duration::from_secs(3600), hard_sessions: false }
    }
}

// === impl PickReason ===

impl PickReason {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::OnlyCandidate,
        Self::LowestCost,
        Self::Tie,
        Self::Sampled,
        Self::Turn,
        Self::Random,
        Self::LessLoadedOfTwo,
        Self::Home,
        Self::Spilled,
        Self::NewSession,
        Self::Moved,
        Self::Pinned,
    ];

    /// The label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OnlyCandidate => "only_candidate",
            Self::LowestCost => "lowest_cost",
            Self::Tie => "tie",
            Self::Sampled => "sampled",
            Self::Turn => "turn",
            Self::Random => "random",
            Self::LessLoadedOfTwo => "less_loaded_of_two",
            Self::Home => "home",
            Self::Spilled => "spilled",
            Self::NewSession => "new_session",
            Self::Moved => "moved",
            Self::Pinned => "pinned",
        }
    }
}

#[cfg(test)]
mod tests;
