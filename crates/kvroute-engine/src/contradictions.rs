//! What cannot all be true of one worker, or of workers that serve one model.
//!
//! A router believes what it is told: by a configuration, by an engine's answers, by its events. Where two of these
//! disagree, one of them is wrong, and whichever is taken, reuse is lost or requests fail without a word. So they are
//! compared, and the disagreement is named with everybody who takes part in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kvroute_core::{BlockSize, Tokens, WorkerRole, closed_label};

use crate::probe::{Probe, ServedModel};

/// A worker to be compared.
#[derive(Clone, Copy, Debug)]
pub struct ComparedWorker<'a> {
    /// Its name, for people.
    pub name: &'a str,
    /// What it says of itself.
    pub probe: &'a Probe,
    /// What others say of it.
    pub told: WorkerClaims,
}

/// What is said of a worker by others than its own answers. Empty is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerClaims {
    /// Its role in the configuration.
    pub role: Option<WorkerRole>,
    /// Its pool's block size in the configuration.
    pub block_size: Option<BlockSize>,
    /// Its number of ranks in the configuration.
    pub dp_ranks: Option<u32>,
    /// The size of the blocks in its events.
    pub block_size_in_events: Option<BlockSize>,
}

closed_label! {
    /// What two do not agree on.
    ContradictionKind {
        /// The size of one worker's blocks.
        BlockSize = "block_size",
        /// The number of one worker's ranks.
        Ranks = "ranks",
        /// What one worker is for.
        Role = "role",
        /// What one name means at one worker, which lists it twice.
        ListedTwice = "listed_twice",
        /// Which model one name means at two workers.
        Model = "model",
        /// How long the context of one model is at two workers.
        ContextLength = "context_length",
        /// How large the vocabulary of one model is at two workers.
        Vocabulary = "vocabulary",
    }
}

/// A disagreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// What about.
    pub kind: ContradictionKind,
    /// The model that it is about; `None` where it is about a worker.
    pub model: Option<String>,
    /// The workers that take part, at least one, in the order in which they were given.
    pub workers: Vec<String>,
    /// Who says what, at least two.
    pub claims: Vec<Claim>,
}

/// One side of a disagreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who: the configuration, a path that was asked, a worker.
    pub who: String,
    /// What.
    pub what: String,
}

/// Everything that these workers contradict themselves or each other in, one worker after the other, then one model
/// after the other. Workers that serve no model in common are compared with nobody.
pub fn contradictions(workers: &[ComparedWorker<'_>]) -> Vec<Contradiction> {
    let mut found: Vec<_> = workers.iter().flat_map(ComparedWorker::contradictions).collect();
    found.extend(between_workers(workers));
    found
}

// === impl ComparedWorker ===

impl ComparedWorker<'_> {
    fn contradictions(&self) -> Vec<Contradiction> {
        let of_one = [self.block_sizes(), self.ranks(), self.roles()];
        of_one.into_iter().flatten().chain(self.listed_twice()).collect()
    }

    fn block_sizes(&self) -> Option<Contradiction> {
        let own = self.probe.own_block_size();
        let claims = [
            ("the configuration", self.told.block_size),
            ("the engine", own),
            ("the announcement of its events", self.probe.announced_block_size),
            ("the event stream", self.told.block_size_in_events),
        ];
        let tokens = |size: BlockSize| format!("{} tokens", size.get());
        self.disagreement(ContradictionKind::BlockSize, said(&claims, tokens))
    }

    fn ranks(&self) -> Option<Contradiction> {
        let configured = self.told.dp_ranks.map(|ranks| ("the configuration", ranks));
        let told = self.probe.rank_claims.iter().map(|claim| (claim.path, claim.ranks));
        let claims: Vec<_> =
            configured.into_iter().chain(told).map(|(who, ranks)| (who, Some(ranks))).collect();
        self.disagreement(ContradictionKind::Ranks, said(&claims, |ranks| ranks.to_string()))
    }

    fn roles(&self) -> Option<Contradiction> {
        let claims = [("the configuration", self.told.role), ("the engine", self.probe.role)];
        self.disagreement(ContradictionKind::Role, said(&claims, |role| role.as_str().to_owned()))
    }

    fn listed_twice(&self) -> Vec<Contradiction> {
        let mut entries = BTreeMap::<_, Vec<&ServedModel>>::new();
        for model in &self.probe.models {
            entries.entry(model.id.as_str()).or_default().push(model);
        }
        let twice = entries.into_iter().filter(|(_, entries)| entries.len() > 1);
        let named = |(id, entries): (&str, Vec<&ServedModel>)| Contradiction {
            kind: ContradictionKind::ListedTwice,
            model: Some(id.to_owned()),
            workers: vec![self.name.to_owned()],
            claims: entries.iter().enumerate().map(|(place, model)| claim_of_entry(place, model)).collect(),
        };
        twice.map(named).collect()
    }

    fn disagreement(&self, kind: ContradictionKind, claims: Vec<Claim>) -> Option<Contradiction> {
        let workers = vec![self.name.to_owned()];
        differ(&claims).then_some(Contradiction { kind, model: None, workers, claims })
    }

    fn models_named(&self, id: &str) -> impl Iterator<Item = &ServedModel> {
        self.probe.models.iter().filter(move |model| model.id == id)
    }
}

fn claim_of_entry(place: usize, model: &ServedModel) -> Claim {
    let root = model.root.as_deref().unwrap_or("an unnamed root");
    let what = match &model.parent {
        Some(parent) => format!("an adapter of {parent} from {root}"),
        None => format!("a model from {root}"),
    };
    Claim { who: format!("entry {}", place + 1), what }
}

fn between_workers(workers: &[ComparedWorker<'_>]) -> Vec<Contradiction> {
    let ids = workers.iter().flat_map(|worker| worker.probe.models.iter().map(|model| model.id.as_str()));
    let ids: BTreeSet<_> = ids.collect();
    ids.into_iter().flat_map(|id| of_model(id, workers)).collect()
}

fn of_model(id: &str, workers: &[ComparedWorker<'_>]) -> Vec<Contradiction> {
    let serving: Vec<_> =
        workers.iter().filter_map(|worker| Some((worker, worker.models_named(id).next()?))).collect();
    let named = |kind, claims: Vec<Claim>| {
        let workers = claims.iter().map(|claim| claim.who.clone()).collect();
        differ(&claims).then(|| Contradiction { kind, model: Some(id.to_owned()), workers, claims })
    };
    let context = serving.iter().map(|(worker, model)| (worker.name, model.max_model_len));
    let context = said(&context.collect::<Vec<_>>(), |tokens: Tokens| format!("{tokens} tokens"));
    let base = serving.iter().filter(|(_, model)| model.parent.is_none());
    let vocabulary = base.map(|(worker, _)| (worker.name, worker.probe.vocabulary)).collect::<Vec<_>>();
    let vocabulary = said(&vocabulary, |size| format!("{size} ids"));
    let roots = different_roots(&serving);
    [
        named(ContradictionKind::Model, roots),
        named(ContradictionKind::ContextLength, context),
        named(ContradictionKind::Vocabulary, vocabulary),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Roots are paths or names of repositories, in each engine's own way, and the same files lie elsewhere on another host:
/// only those of one kind of engine are compared, and of them only the last parts.
fn different_roots(serving: &[(&ComparedWorker<'_>, &ServedModel)]) -> Vec<Claim> {
    let mut by_engine = BTreeMap::<_, Vec<(&str, &str)>>::new();
    for (worker, model) in serving {
        let Some(root) = model.root.as_deref() else { continue };
        by_engine.entry(worker.probe.engine.as_str()).or_default().push((worker.name, root));
    }
    let last = |root: &str| root.trim_end_matches('/').rsplit('/').next().map(str::to_lowercase);
    let different = by_engine.into_values().find(|roots| {
        let first = roots.first().and_then(|(_, root)| last(root));
        roots.iter().any(|(_, root)| last(root) != first)
    });
    let claim = |(who, root): (&str, &str)| Claim { who: who.to_owned(), what: root.to_owned() };
    different.unwrap_or_default().into_iter().map(claim).collect()
}

/// The claims of those who say something.
fn said<T: Copy>(claims: &[(&str, Option<T>)], in_words: impl Fn(T) -> String) -> Vec<Claim> {
    let claims = claims.iter().filter_map(|(who, what)| Some((*who, (*what)?)));
    claims.map(|(who, what)| Claim { who: who.to_owned(), what: in_words(what) }).collect()
}

fn differ(claims: &[Claim]) -> bool {
    claims.windows(2).any(|pair| pair[0].what != pair[1].what)
}

// === impl ContradictionKind ===

impl ContradictionKind {
    /// What to do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::BlockSize => "set pool.block_size to \"auto\", or to the size of the engine's blocks",
            Self::Ranks => "set the worker's dp_ranks to the number that is true",
            Self::Role => "set the worker's role to what its engine was started for, or start it anew",
            Self::ListedTwice => "give each model and adapter of the engine a name of its own",
            Self::Model => "put workers with another model into a pool of their own, under another name",
            Self::ContextLength => {
                "start the workers of a pool with the same context length, or what fits one is refused by another"
            }
            Self::Vocabulary => "these are two models: put them into two pools, under two names",
        }
    }
}

// === impl Contradiction ===

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ContradictionKind::BlockSize => "block size",
            ContradictionKind::Ranks => "data-parallel ranks",
            ContradictionKind::Role => "role",
            ContradictionKind::ListedTwice => "two models under one name",
            ContradictionKind::Model => "two models under one name at two workers",
            ContradictionKind::ContextLength => "context length",
            ContradictionKind::Vocabulary => "size of the vocabulary",
        };
        f.write_str(what)?;
        if let Some(model) = &self.model {
            write!(f, " of {model}")?;
        }
        for (place, claim) in self.claims.iter().enumerate() {
            let before = if place == 0 { ": " } else { ", " };
            write!(f, "{before}{} says {}", claim.who, claim.what)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
