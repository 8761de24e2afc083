//! From a counted request to an attempt: what the index knows, where it goes, what is booked, which books open.

use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{HashedPrompts, Namespace, Phase, Tokens};
use kvroute_engine::EngineKind;
use kvroute_funnel::{AttemptLedger, Count, DeliveryTerms, Opening, ReportExpectation};
use kvroute_metrics::{DecisionMarks, RequestRecorder, Stage};
use kvroute_openai::ClientRequest;
use kvroute_select::Nobody;
use tokio::time::Instant;

use crate::affinity;
use crate::attempt::{Attempt, AttemptParams};
use crate::cached_view::with_cached;
use crate::counting::Counting;
use crate::decisions::{Considered, DecisionRecord};
use crate::desk::{Inquiry, Particulars, Placement};
use crate::hints::Hints;
use crate::pool::{Fleet, Pool};
use crate::promise::Promise;

/// A request as the selection sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a ClientRequest,
    pub(crate) counting: &'a Counting,
    /// Length of each prompt; an estimate where they were not tokenized.
    pub(crate) prompt_lengths: &'a [Tokens],
    pub(crate) hints: &'a Hints,
}

/// What an attempt's books are opened with, beside the decision.
#[derive(Debug)]
pub(crate) struct Opened<'a> {
    pub(crate) request_id: &'a str,
    pub(crate) recorder: RequestRecorder,
    pub(crate) received: Instant,
}

/// A decision that is booked, and what it was taken from.
#[derive(Debug)]
pub(crate) struct Decision {
    placement: Placement<Option<Box<DecisionRecord>>>,
    hashed: HashedPrompts,
    /// Before the index was asked, in the pool's time.
    selected: Duration,
}

/// Reads the clock at the end of each part of a decision.
#[derive(Debug)]
pub(crate) struct DecisionTimer {
    started: Instant,
    marks: DecisionMarks,
}

// === impl Pool ===

impl Pool {
    /// Picks a rank and books the attempt on it.
    pub(crate) fn decide(&self, asked: &Asked<'_>, waited: Duration) -> Result<Decision, Nobody> {
        let stage = self.stages().enter(Stage::Route);
        let mut timer = DecisionTimer::start();
        let (selected, fleet) = (self.knowledge().now(), self.fleet());
        let (hashed, placement) = self.inquire(&fleet, asked, &mut timer, |inquiry| {
            self.desk().place(inquiry, |particulars| {
                let is_kept = particulars.attempt.is_some_and(|id| self.decisions().wants(id, selected));
                is_kept.then(|| Box::new(self.record(inquiry, particulars, asked, waited)))
            })
        });
        let placement = placement?;
        stage.passed(timer.elapsed());
        self.overhead().decided(&timer.scheduled());
        self.metrics().decided(placement.reason.as_str());
        if let Some(overlap) = placement.overlap {
            self.metrics().selected(Phase::Aggregated, overlap);
        }
        if let Some(input) = asked.counting.input() {
            for (policy, selected) in &placement.shadows {
                self.metrics().shadow(policy, input, *selected);
            }
        }
        Ok(Decision { placement, hashed, selected })
    }

    /// Opens the books of a decision.
    pub(crate) fn open(
        self: &Arc<Self>,
        decision: Decision,
        asked: &Asked<'_>,
        opened: Opened<'_>,
    ) -> Attempt {
        let Decision { placement, hashed, selected } = decision;
        let opening = opening(asked, &placement);
        let Placement { attempt: id, rank, stages, record, .. } = placement;
        let Opened { request_id, recorder, received } = opened;
        let decision = record.map(|record| self.decisions().put(*record, request_id));
        match decision {
            Some(_) => self.metrics().decision_recorded(),
            None => self.metrics().decision_unrecorded(),
        }
        let promise = Promise {
            pool: Arc::clone(self),
            rank: Arc::clone(&rank),
            attempt: id,
            hashed: Arc::new(hashed),
            predicted: stages.map(|stages| stages.selected),
            selected,
            tests_cache: !asked.request.bypasses_cache,
        };
        let ledger = AttemptLedger::open(opening, self.metrics().attempt(Phase::Aggregated, &rank.metrics));
        let pool = Arc::clone(self);
        Attempt::new(AttemptParams { pool, rank, id, received, promise, ledger, recorder, decision })
    }

    /// Looks the prompts up, if an index is to be asked, and hands over all that a decision is taken from.
    pub(crate) fn inquire<T>(
        &self,
        fleet: &Fleet,
        asked: &Asked<'_>,
        timer: &mut DecisionTimer,
        then: impl FnOnce(&Inquiry<'_>) -> T,
    ) -> (HashedPrompts, T) {
        let request = asked.request;
        let adapter = self.adapter_of(request);
        let weights = asked.hints.overrides.apply(self.config().weights);
        let hashed = self.hash(fleet, asked, adapter, timer);
        let is_looked_up = hashed.is_some();
        let hashed = hashed.unwrap_or_default();
        let inquiry = Inquiry {
            ranks: &fleet.ranks,
            cached: None,
            hashed: &hashed,
            prompt_lengths: asked.prompt_lengths,
            choices: request.choices,
            is_stream: request.stream,
            weights,
            affinity: affinity::of(request, asked.hints.session),
            pin: asked.hints.pin.as_ref(),
            adapter,
        };
        let result = if is_looked_up {
            with_cached(self.knowledge().index(), &hashed, &fleet.slots, |cached| {
                timer.matches_found();
                then(&Inquiry { cached: Some(cached), ..inquiry })
            })
        } else {
            then(&inquiry)
        };
        (hashed, result)
    }

    /// What a decision saw, to be explained later.
    pub(crate) fn record(
        &self,
        inquiry: &Inquiry<'_>,
        particulars: &Particulars<'_>,
        asked: &Asked<'_>,
        waited: Duration,
    ) -> DecisionRecord {
        let Particulars { selector, pick, stages, .. } = *particulars;
        let considered = Considered {
            model: self.model(),
            policy: selector.policy().name(),
            reason: pick.reason,
            ranks: inquiry.ranks,
            candidates: selector.candidates(),
            costs: selector.costs(),
            cached: inquiry.cached,
            picked: pick.candidate,
            input: asked.counting.input(),
            stages,
            shadows: selector.shadow_picks().collect(),
            waited,
        };
        DecisionRecord::of(&considered, self.decisions().candidates())
    }

    /// The prompts as the index knows them; `None` where none is asked.
    fn hash(
        &self,
        fleet: &Fleet,
        asked: &Asked<'_>,
        adapter: Option<&str>,
        timer: &mut DecisionTimer,
    ) -> Option<HashedPrompts> {
        let Counting::Exact(prompts) = asked.counting else { return None };
        if !self.asks_index() || !fleet.ranks.iter().any(|rank| rank.source.is_some()) {
            return None;
        }
        let salt = asked.request.cache_salt.as_deref();
        let namespace = Namespace::new(salt, adapter).keyed(self.extra_key_of(asked.request));
        let hashed = HashedPrompts::new(prompts, &fleet.block_sizes(), namespace, || timer.blocks_hashed());
        timer.sequences_hashed();
        Some(hashed)
    }

    /// Other engines ignore the field, and share what it is to keep apart.
    fn extra_key_of<'a>(&self, request: &'a ClientRequest) -> Option<&'a str> {
        request.extra_key.as_deref().filter(|_| self.engine_kind() == Some(EngineKind::Sglang))
    }
}

fn opening<T>(asked: &Asked<'_>, placement: &Placement<T>) -> Opening {
    let count = match asked.counting {
        Counting::Exact(_) => {
            let input = asked.prompt_lengths.iter().copied().sum();
            Count::Exact { input, cached: placement.stages }
        }
        Counting::Uncounted(reason, _) => Count::Uncounted(*reason),
    };
    let ambiguous = asked.request.prompt_list && !placement.rank.engine.sums_reuse_of_prompt_lists();
    let reports = if ambiguous { ReportExpectation::Ambiguous } else { ReportExpectation::Expected };
    let size = placement.rank.block_size();
    let reusable = asked.prompt_lengths.iter().map(|length| size.reusable_tokens(*length)).sum();
    let delivery = placement.stages.map(|_| DeliveryTerms { reusable });
    Opening { count, reports, delivery }
}

// === impl DecisionTimer ===

impl DecisionTimer {
    /// The decision begins.
    pub(crate) fn start() -> Self {
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
