//! From a counted request to an attempt: what the index knows, where it goes, what is booked, which books open.

use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{BlockSize, HashedPrompts, Namespace, Phase, TokenId, Tokens, WorkerId};
use kvroute_engine::EngineKind;
use kvroute_funnel::{
    AbsentLoss, AttemptLedger, Count, LedgerTerms, Opening, ReportExpectation, SelectionLosses,
};
use kvroute_metrics::{DecisionMarks, RequestRecorder, Stage};
use kvroute_openai::ClientRequest;
use kvroute_select::Nobody;
use tokio::time::Instant;

use crate::affinity;
use crate::attempt::{Attempt, AttemptParams};
use crate::cached_view::with_cached;
use crate::counting::Counting;
use crate::decisions::{Considered, DecisionRecord};
use crate::desk::{GivenUp, Inquiry, Particulars, Placement};
use crate::fleet::Fleet;
use crate::hints::{Hints, Pin};
use crate::history::{Known, Lesson};
use crate::missing;
use crate::outputs::{Outputs, PromptEnd};
use crate::pool::Pool;
use crate::promise::Promise;
use crate::route::Route;
use crate::trail::Trail;

/// A request as the selection sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a ClientRequest,
    pub(crate) counting: &'a Counting,
    /// Length of each prompt; an estimate where they were not tokenized.
    pub(crate) prompt_lengths: &'a [Tokens],
    pub(crate) hints: &'a Hints,
    /// What keeps its blocks apart from equal ones of others.
    pub(crate) salt: Option<&'a str>,
    /// What the attempt is to do of it.
    pub(crate) phase: Phase,
    /// The kind of engine that the prompt's KV comes from; `None` where it comes from nobody.
    pub(crate) engine: Option<EngineKind>,
    /// Workers that an earlier attempt failed on.
    pub(crate) tried: &'a [WorkerId],
}

/// What an attempt's books are opened with, beside the decision.
#[derive(Debug)]
pub(crate) struct Opened<'a> {
    pub(crate) request_id: &'a str,
    /// `None` for a prefill beside a decode attempt that has it.
    pub(crate) recorder: Option<RequestRecorder>,
    pub(crate) received: Instant,
    pub(crate) trail: Trail,
    /// What the history learns of a generation whose prompt was looked up by another attempt.
    pub(crate) lesson: Option<Lesson>,
}

/// A decision that is booked, and what it was taken from.
#[derive(Debug)]
pub(crate) struct Decision {
    placement: Placement<Option<Box<DecisionRecord>>>,
    /// F1; `None` where no history was asked.
    known: Option<Known>,
    /// F0 − A with its reasons; `None` where no index was asked.
    absent: Option<AbsentLoss>,
    hashed: HashedPrompts,
    /// Before the index was asked, in the pool's time.
    selected: Duration,
    /// How long it was waited for.
    waited: Duration,
}

/// What is known of a prompt beyond its longest cached prefix.
#[derive(Clone, Copy, Debug)]
struct Beyond {
    history: Option<Tokens>,
    absent: Option<AbsentLoss>,
}

/// Reads the clock at the end of each part of a decision.
#[derive(Debug)]
pub(crate) struct DecisionTimer {
    started: Instant,
    marks: DecisionMarks,
}

// === impl Opened ===

impl<'a> Opened<'a> {
    /// For one more attempt of a request.
    pub(crate) fn of(route: &'a Route, recorder: Option<RequestRecorder>, lesson: Option<Lesson>) -> Self {
        let (request_id, received, trail) = (route.name(), route.received, route.trail.clone());
        Self { request_id, recorder, received, trail, lesson }
    }
}

// === impl Asked ===

impl<'a> Asked<'a> {
    /// The rank or ranks that the caller named. Whoever names a prefill worker leaves open who takes over.
    pub(crate) fn pin(&self) -> Option<&'a Pin> {
        self.hints.pin.as_ref().filter(|_| self.phase != Phase::Decode)
    }
}

// === impl Pool ===

impl Pool {
    /// Picks a rank and books the attempt on it.
    pub(crate) fn decide(&self, asked: &Asked<'_>, waited: Duration) -> Result<Decision, Nobody> {
        let stage = self.stages(asked.phase).enter(Stage::Route);
        let mut timer = DecisionTimer::start();
        let (selected, fleet) = (self.knowledge().now(), self.fleet());
        let started = timer.started;
        let (hashed, (placement, known, absent, scheduled)) =
            self.inquire(&fleet, asked, &mut timer, |inquiry| {
                let placement = self.desk().place(inquiry, |particulars| {
                    let is_kept = particulars.attempt.is_some_and(|id| self.decisions().wants(id, selected));
                    is_kept.then(|| Box::new(self.record(inquiry, particulars, asked, waited)))
                });
                let scheduled = started.elapsed();
                let known = inquiry.cached.and_then(|_| self.history()?.look_up(inquiry.hashed));
                let absent = missing::absent(self.knowledge(), inquiry, known.as_ref());
                (placement, known, absent, scheduled)
            });
        let placement = placement?;
        stage.passed(timer.elapsed());
        self.overhead().decided(&DecisionMarks { scheduled, ..timer.marks });
        self.metrics().decided(placement.reason.as_str());
        if let Some(overlap) = placement.overlap {
            self.metrics().selected(asked.phase, overlap);
        }
        if let Some(input) = asked.counting.input() {
            for (policy, selected) in &placement.shadows {
                self.metrics().shadow(policy, input, *selected);
            }
        }
        Ok(Decision { placement, known, absent, hashed, selected, waited })
    }

    /// Opens the books of a decision. What the history learns of a generation from a prompt that was computed elsewhere
    /// comes with `opened`.
    pub(crate) fn open(
        self: &Arc<Self>,
        decision: Decision,
        asked: &Asked<'_>,
        opened: Opened<'_>,
    ) -> Attempt {
        let Decision { placement, known, absent, hashed, selected, waited } = decision;
        let prefixes = placement.stages.map_or_else(Vec::new, |stages| {
            missing::prefixes_on(self.knowledge(), &placement.rank, &hashed, stages.selected)
        });
        let history = known.as_ref().map(|known| known.total);
        let opening = opening(asked, &placement, Beyond { history, absent }, &prefixes);
        let Placement { attempt: id, rank, pass, stages, speed, reason, record, .. } = placement;
        let Opened { request_id, recorder, received, trail, lesson } = opened;
        let hashed = Arc::new(hashed);
        let lesson = lesson.or_else(|| self.lesson(asked, &hashed, known?.size));
        let decision = record.map(|record| self.decisions().put(*record, request_id));
        match decision {
            Some(_) => self.metrics().decision_recorded(),
            None => self.metrics().decision_unrecorded(),
        }
        let promise = Promise {
            pool: Arc::clone(self),
            rank: Arc::clone(&rank),
            attempt: id,
            hashed,
            predicted: stages.map(|stages| stages.selected),
            prefixes: prefixes.into(),
            selected,
            tests_cache: !asked.request.bypasses_cache,
        };
        let ledger = AttemptLedger::open(opening, self.metrics().attempt(asked.phase, &rank.metrics, speed));
        let witness = self.counter().witness(self, &rank, asked.request, asked.counting);
        let pool = Arc::clone(self);
        Attempt::new(AttemptParams {
            pool,
            rank,
            pass,
            id,
            phase: asked.phase,
            received,
            waited,
            promise,
            lesson,
            ledger,
            witness,
            recorder,
            decision,
            reason: reason.as_str(),
            trail,
        })
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
        let takers = if asked.phase == Phase::Prefill { fleet.takers() } else { Vec::new() };
        let (has_others, fleet) = (fleet.is_divided(), fleet.of_phase(asked.phase));
        let adapter = self.adapter_of(request);
        let weights = asked.hints.overrides.apply(self.config().weights);
        let hashed = self.hash(fleet, asked, adapter, timer);
        let is_looked_up = hashed.is_some();
        let hashed = hashed.unwrap_or_default();
        let inquiry = Inquiry {
            phase: asked.phase,
            engine: asked.engine,
            takers: &takers,
            ranks: &fleet.ranks,
            has_others,
            cached: None,
            hashed: &hashed,
            prompt_lengths: asked.prompt_lengths,
            choices: request.choices,
            is_stream: request.stream,
            weights,
            affinity: affinity::of(request, asked.hints.session),
            pin: asked.pin(),
            adapter,
            tried: asked.tried,
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
        let Particulars { selector, pick, stages, given_up, .. } = *particulars;
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
            given_up,
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
        if asked.phase == Phase::Decode
            || !self.asks_index()
            || !fleet.ranks.iter().any(|rank| rank.source.is_some())
        {
            return None;
        }
        let namespace = self.namespace(asked, adapter);
        let (items, sizes) = (prompts.items(), self.block_sizes(fleet));
        let hashed = HashedPrompts::with_items(prompts, items, &sizes, namespace, || timer.blocks_hashed());
        timer.sequences_hashed();
        Some(hashed)
    }

    /// What the history will learn of a request that was looked up by this block size.
    fn lesson(&self, asked: &Asked<'_>, hashed: &Arc<HashedPrompts>, size: BlockSize) -> Option<Lesson> {
        let (Some(history), Counting::Exact(prompts)) = (self.history(), asked.counting) else { return None };
        let namespace = self.namespace(asked, self.adapter_of(asked.request));
        let of_size = prompts.iter().zip(hashed.of_size(size)).enumerate();
        let end = |(prompt, (tokens, blocks)): (usize, (&Vec<TokenId>, _))| {
            PromptEnd::of(tokens, blocks, namespace).with_items(prompts.items_of(prompt))
        };
        let ends = of_size.map(end).collect();
        let outputs = Outputs::new(size, asked.request.choices, ends);
        Some(Lesson::new(history, Arc::clone(hashed), outputs))
    }

    /// What keeps its blocks apart from equal ones.
    fn namespace(&self, asked: &Asked<'_>, adapter: Option<&str>) -> Namespace {
        Namespace::new(asked.salt, adapter).keyed(self.extra_key_of(asked.request))
    }

    /// Other engines ignore the field, and share what it is to keep apart.
    fn extra_key_of<'a>(&self, request: &'a ClientRequest) -> Option<&'a str> {
        request.extra_key.as_deref().filter(|_| self.engine_kind() == Some(EngineKind::Sglang))
    }
}

fn opening<T>(asked: &Asked<'_>, placement: &Placement<T>, beyond: Beyond, prefixes: &[Tokens]) -> Opening {
    let Beyond { history, absent } = beyond;
    let count = match asked.counting {
        Counting::Exact(_) => {
            let input = asked.prompt_lengths.iter().copied().sum();
            Count::Exact { input, cached: placement.stages }
        }
        Counting::Uncounted(reason, _) => Count::Uncounted(*reason),
    };
    let ambiguous = asked.request.prompt_list && !placement.rank.engine.sums_reuse_of_prompt_lists();
    let reports = match asked.phase {
        Phase::Decode => ReportExpectation::Excluded,
        _ if ambiguous => ReportExpectation::Ambiguous,
        _ => ReportExpectation::Expected,
    };
    let reusable = reusable(placement.rank.block_size(), asked.prompt_lengths, prefixes);
    let GivenUp { eligibility, placement } = placement.given_up;
    let losses = absent.map(|absent| SelectionLosses { absent, eligibility, placement });
    let ledger = losses.map(|losses| LedgerTerms { losses, reusable });
    Opening { count, history, reports, ledger, is_repeat: !asked.tried.is_empty() }
}

/// What an engine can reuse of cached prefixes: of each prompt all but the block with its last token.
fn reusable(size: BlockSize, lengths: &[Tokens], prefixes: &[Tokens]) -> Tokens {
    let of_prompt = |(length, prefix): (&Tokens, &Tokens)| size.reusable_tokens(*length).min(*prefix);
    lengths.iter().zip(prefixes).map(of_prompt).sum()
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_of_one_prompt_of_a_list_was_hidden_by_what_is_new_in_another() {
        let tokens = |counts: [u64; 2]| counts.map(Tokens::new);
        let (size, prefixes) = (BlockSize::new(16).unwrap(), tokens([64, 0]));
        assert_eq!(reusable(size, &tokens([64, 100]), &prefixes), Tokens::new(48), "of 64 that are cached");
    }
}
