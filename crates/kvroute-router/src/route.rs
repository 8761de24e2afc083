//! A request on its way: all that it takes to send it, as often as that takes.
//!
//! A request may be sent more than once: elsewhere where nobody answered, in two parts where one worker computes the
//! prompt and another one generates, and once more where a stream broke off. Each time it is the same request.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use kvroute_core::{Phase, Tokens, WorkerId};
use kvroute_engine::EngineKind;
use kvroute_openai::ClientRequest;
use tokio::time::Instant;

use crate::counting::Counting;
use crate::hints::Hints;
use crate::history::Lesson;
use crate::placing::Asked;
use crate::trail::Trail;

/// One request, counted, with what names it.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) request: Arc<ClientRequest>,
    pub(crate) counting: Arc<Counting>,
    /// Length of each prompt; an estimate where they were not tokenized.
    pub(crate) prompt_lengths: Vec<Tokens>,
    pub(crate) hints: Hints,
    /// The client's.
    pub(crate) headers: HeaderMap,
    pub(crate) request_id: HeaderValue,
    pub(crate) received: Instant,
    pub(crate) trail: Trail,
    /// What keeps its tenant's caches apart from all others; `None` where it has no tenant.
    pub(crate) salt: Option<Arc<str>>,
    /// Whether the caller may see how it was placed.
    pub(crate) explains: bool,
}

/// What one worker is to do of it.
#[derive(Debug)]
pub(crate) struct Leg {
    pub(crate) phase: Phase,
    /// The kind of engine that the prompt's KV comes from; `None` where it comes from nobody.
    pub(crate) engine: Option<EngineKind>,
    /// Members of the body that tell the worker so, each with what it becomes; `None` takes it out.
    pub(crate) members: Vec<Member>,
    /// What the history learns of a generation whose prompt was looked up by another attempt.
    pub(crate) lesson: Option<Lesson>,
}

/// A top-level member of a body: its name, and the JSON that it becomes.
pub(crate) type Member = (&'static str, Option<String>);

// === impl Route ===

impl Route {
    /// What the selection is told of a leg, after these workers failed on it.
    pub(crate) fn asked<'a>(&'a self, leg: &Leg, tried: &'a [WorkerId]) -> Asked<'a> {
        Asked {
            request: &self.request,
            counting: &self.counting,
            prompt_lengths: &self.prompt_lengths,
            hints: &self.hints,
            salt: self.salt.as_deref().or(self.request.cache_salt.as_deref()),
            phase: leg.phase,
            engine: leg.engine,
            tried,
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.request_id.to_str().unwrap_or_default()
    }

    /// Length of all prompts.
    pub(crate) fn input(&self) -> Tokens {
        self.prompt_lengths.iter().copied().sum()
    }
}

// === impl Leg ===

impl Leg {
    /// Prompt and generation on one worker.
    pub(crate) const fn whole() -> Self {
        Self::of(Phase::Aggregated)
    }

    /// A part, of which its worker is told nothing yet.
    pub(crate) const fn of(phase: Phase) -> Self {
        Self { phase, engine: None, members: Vec::new(), lesson: None }
    }
}
