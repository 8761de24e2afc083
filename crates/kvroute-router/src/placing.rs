//! From a counted request to an attempt: what the index knows, where it goes, what is booked, which books open.

use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{Namespace, Phase, Tokens};
use kvroute_engine::EngineKind;
use kvroute_funnel::{AttemptLedger, Count, DeliveryTerms, Opening, ReportExpectation};
use kvroute_metrics::{DecisionMarks, RequestRecorder, Stage};
use kvroute_openai::ClientRequest;
use kvroute_select::{CachedTokens, NoCandidate};
use tokio::time::Instant;

use crate::attempt::{Attempt, AttemptParams};
use crate::cached_view::HashedPrompts;
use crate::counting::Counting;
use crate::desk::{Placement, Question};
use crate::pool::{Fleet, Pool};
use crate::promise::Promise;

/// What a request needs to be placed.
pub(crate) struct Arrival<'a> {
    pub(crate) request: &'a ClientRequest,
    pub(crate) counting: Counting,
    pub(crate) recorder: RequestRecorder,
    pub(crate) received: Instant,
}

/// Reads the clock at the end of each part of a decision.
#[derive(Debug)]
struct DecisionTimer {
    started: Instant,
    marks: DecisionMarks,
}

// === impl Pool ===

impl Pool {
    /// Picks a rank, books the attempt and opens its ledger.
    pub(crate) fn place(
        self: &Arc<Self>,
        arrival: Arrival<'_>,
    ) -> Result<Attempt, (NoCandidate, RequestRecorder)> {
        let Arrival { request, counting, recorder, received } = arrival;
        let stage = self.stages().enter(Stage::Route);
        let mut decision = DecisionTimer::start();
        let (selected, fleet) = (self.knowledge().now(), self.fleet());
        let (hashed, cached) = self.look_up(&fleet, request, &counting, &mut decision);
        let question = Question {
            ranks: &fleet.ranks,
            cached: cached.as_deref(),
            hashed: &hashed,
            prompt_lengths: &counting.prompt_lengths(),
            choices: request.choices,
        };
        let placement = match self.desk().place(&question) {
            Ok(placement) => placement,
            Err(none) => return Err((none, recorder)),
        };
        stage.passed(decision.elapsed());
        self.overhead().decided(&decision.scheduled());
        self.metrics().decided(placement.reason.as_str());
        if let Some(overlap) = placement.overlap {
            self.metrics().selected(Phase::Aggregated, overlap);
        }
        let opening = opening(&counting, request, &placement);
        let Placement { attempt: id, rank, stages, .. } = placement;
        let predicted = stages.map(|stages| stages.selected);
        let promise = Promise {
            pool: Arc::clone(self),
            rank: Arc::clone(&rank),
            attempt: id,
            hashed: Arc::new(hashed),
            predicted,
            selected,
            tests_cache: !request.bypasses_cache,
        };
        let ledger = AttemptLedger::open(opening, self.metrics().attempt(Phase::Aggregated, &rank.metrics));
        let pool = Arc::clone(self);
        Ok(Attempt::new(AttemptParams { pool, rank, id, received, promise, ledger, recorder }))
    }

    fn look_up(
        &self,
        fleet: &Fleet,
        request: &ClientRequest,
        counting: &Counting,
        decision: &mut DecisionTimer,
    ) -> (HashedPrompts, Option<Vec<CachedTokens>>) {
        let Counting::Exact(prompts) = counting else { return (HashedPrompts::default(), None) };
        if !self.asks_index() || !fleet.ranks.iter().any(|rank| rank.source.is_some()) {
            return (HashedPrompts::default(), None);
        }
        let namespace = Namespace::new(request.cache_salt.as_deref(), self.adapter_of(fleet, request))
            .keyed(self.extra_key_of(request));
        let hashed =
            HashedPrompts::new(prompts, &fleet.block_sizes(), namespace, || decision.blocks_hashed());
        decision.sequences_hashed();
        let cached = hashed.cached_on(self.knowledge().index(), &fleet.slots);
        decision.matches_found();
        (hashed, Some(cached))
    }

    /// Other engines ignore the field, and share what it is to keep apart.
    fn extra_key_of<'a>(&self, request: &'a ClientRequest) -> Option<&'a str> {
        request.extra_key.as_deref().filter(|_| self.engine_kind() == Some(EngineKind::Sglang))
    }

    fn adapter_of<'a>(&self, fleet: &Fleet, request: &'a ClientRequest) -> Option<&'a str> {
        request.model.as_deref().filter(|name| fleet.adapters.contains(*name))
    }
}

fn opening(counting: &Counting, request: &ClientRequest, placement: &Placement) -> Opening {
    let count = match counting {
        Counting::Exact(prompts) => Count::Exact {
            input: prompts.iter().map(|ids| Tokens::from(ids.len())).sum(),
            cached: placement.stages,
        },
        Counting::Uncounted(reason, _) => Count::Uncounted(*reason),
    };
    let ambiguous = request.prompt_list && !placement.rank.engine.sums_reuse_of_prompt_lists();
    let reports = if ambiguous { ReportExpectation::Ambiguous } else { ReportExpectation::Expected };
    let size = placement.rank.block_size();
    let reusable = || counting.prompt_lengths().into_iter().map(|length| size.reusable_tokens(length)).sum();
    let delivery = placement.stages.map(|_| DeliveryTerms { reusable: reusable() });
    Opening { count, reports, delivery }
}

// === impl DecisionTimer ===

impl DecisionTimer {
    fn start() -> Self {
        Self { started: Instant::now(), marks: DecisionMarks::default() }
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn blocks_hashed(&mut self) {
        self.marks.block_hashing = Some(self.elapsed());
    }

    fn sequences_hashed(&mut self) {
        self.marks.sequence_hashing = Some(self.elapsed());
    }

    fn matches_found(&mut self) {
        self.marks.find_matches = Some(self.elapsed());
    }

    fn scheduled(mut self) -> DecisionMarks {
        self.marks.scheduled = self.elapsed();
        self.marks
    }
}
