//! From a request to the head of its answer: on one worker, or on two where one computes the prompt for another.
//!
//! Which workers compute prompts for others is configured, and how they hand them over follows from their engine. Serial
//! engines answer the prefill with what the decode worker is to be told ([`serial`]); others want both at once
//! ([`dual`]). A request is served whole where handing over is not worth it or nobody is there to do it; that is counted
//! with its reason, so that a fleet that has lost its prefill workers shows it.

mod bodies;
mod dual;
mod serial;
mod stranded;

use std::sync::Arc;

use http::HeaderMap;
use kvroute_core::{Phase, Tokens, WorkerId, WorkerRole};
use kvroute_engine::Handoff;
use kvroute_metrics::{PrefillFallbackReason, RequestRecorder};
use kvroute_openai::{Prompt, UsageCorrection};

use crate::admission::Unplaced;
use crate::config::OnNoPrefill;
use crate::dispatch::{Failed, Sent, explanation};
use crate::error::ErrorKind;
use crate::placing::{DecisionTimer, Opened};
use crate::pool::Pool;
use crate::retries::{Trials, Unsent, Why};
use crate::route::{Leg, Route};
use crate::worker::Worker;

/// The head of a client's answer.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) sent: Sent,
    /// What its usage becomes: the worker that generates counts what it was handed over as cached.
    pub(crate) correction: UsageCorrection,
    /// Headers that tell a trusted caller where the request went.
    pub(crate) explanation: HeaderMap,
}

/// A request in two parts that got no answer.
#[derive(Debug)]
struct Missed {
    unsent: Unsent,
    /// Those that brought none though they were to generate.
    tried: Vec<WorkerId>,
}

/// What became of one attempt to hand a prompt over.
enum Tried {
    Answered(Box<Answered>),
    /// The prefill's worker brought no answer, or one of no use.
    PrefillFailed(Failed),
    /// The worker that was to take over brought none, or there was none.
    DecodeUnsent(Unsent),
    /// The worker that was to take over brought none, and another one may.
    DecodeFailed(Failed),
}

/// Said of requests that some engines would wait with for ever.
const ONE_FOR_ONE: &str = "its workers hand over one prompt for one answer, and none of them serves a request whole; send one \
                           prompt with n = 1, or add a worker with role \"aggregated\"";

// === impl Pool ===

impl Pool {
    /// Finds workers for a request and sends it, until an answer begins. It is not sent to those that were tried before.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        route: &Route,
        recorder: RequestRecorder,
        tried: Vec<WorkerId>,
    ) -> Result<Answered, Unsent> {
        let trials = Trials::without(tried);
        if !self.hands_over() || self.is_pinned_elsewhere(route) {
            return self.answer_whole(route, trials, Some(recorder)).await;
        }
        if !can_be_handed_over(route) && self.serves_nobody_whole() {
            return Err(Unsent::unplaced(Unplaced::Unservable(ONE_FOR_ONE), recorder));
        }
        if let Some(reason) = self.served_whole(route, &trials) {
            self.metrics().prefill_fell_back(reason);
            return self.answer_whole(route, trials, Some(recorder)).await;
        }
        match Box::pin(self.answer_in_two(route, trials.clone(), recorder)).await {
            Ok(answered) => Ok(answered),
            Err(missed) => self.answer_all_the_same(route, trials, missed).await,
        }
    }

    /// Serves a request whole that was not answered in two parts: by others than those that failed to generate, where there
    /// are any.
    async fn answer_all_the_same(
        self: &Arc<Self>,
        route: &Route,
        trials: Trials,
        missed: Missed,
    ) -> Result<Answered, Unsent> {
        let Missed { unsent: Unsent { why, recorder }, tried } = missed;
        let reason = why.fallback().filter(|_| recorder.is_some() && self.may_be_served_whole());
        let Some(reason) = reason else { return Err(Unsent { why, recorder }) };
        tracing::warn!(
            model = %self.model(), reason = reason.as_str(), %why,
            "a prompt was not handed over: it is computed where it is answered"
        );
        self.metrics().prefill_fell_back(reason);
        match self.answer_whole(route, Trials::without(tried), recorder).await {
            Err(Unsent { why: Why::Unplaced(_), recorder }) => {
                self.answer_whole(route, trials, recorder).await
            }
            answered => answered,
        }
    }

    async fn answer_whole(
        self: &Arc<Self>,
        route: &Route,
        mut trials: Trials,
        recorder: Option<RequestRecorder>,
    ) -> Result<Answered, Unsent> {
        let sent = self.send(route, &Leg::whole(), &mut trials, recorder).await?;
        Ok(Answered::by(sent, route))
    }

    /// Whether its decode workers only take over, and no other worker is there or to come.
    fn serves_nobody_whole(&self) -> bool {
        let fleet = self.fleet();
        let is_whole = |worker: &Arc<Worker>| worker.config().role == WorkerRole::Aggregated;
        let is_one_to_come = self.plan().crew.now().iter().any(is_whole);
        let takers = &fleet.of_phase(Phase::Decode).ranks;
        !is_one_to_come && !takers.is_empty() && fleet.of_phase(Phase::Aggregated).ranks.is_empty()
    }

    /// Whether a prompt that no prefill worker computes may be computed where it is decoded.
    fn may_be_served_whole(&self) -> bool {
        let is_wanted = self.config().on_no_prefill == OnNoPrefill::Fallback;
        is_wanted && !self.fleet().of_phase(Phase::Aggregated).ranks.is_empty()
    }

    /// Whether the caller named a worker that computes no prompts for others.
    fn is_pinned_elsewhere(&self, route: &Route) -> bool {
        let Some(pin) = &route.hints.pin else { return false };
        let fleet = self.fleet();
        !fleet.of_phase(Phase::Prefill).ranks.iter().any(|rank| pin.names(&rank.name))
    }

    /// Why a request is not handed over, as far as can be told before it is placed; `None` where it is, or nobody can
    /// serve it whole.
    fn served_whole(&self, route: &Route, trials: &Trials) -> Option<PrefillFallbackReason> {
        if !can_be_handed_over(route) {
            return Some(PrefillFallbackReason::Unsupported);
        }
        if self.fleet().of_phase(Phase::Aggregated).ranks.is_empty() {
            return None;
        }
        if self.is_cached_where_decoded(route, trials) {
            return Some(PrefillFallbackReason::Cached);
        }
        if self.config().on_no_prefill == OnNoPrefill::Strict || route.hints.pin.is_some() {
            return None;
        }
        let fleet = self.fleet();
        match (fleet.has_pair(|_| true), fleet.has_pair(|rank| rank.worker.takes_requests())) {
            (_, true) => None,
            (true, false) => Some(PrefillFallbackReason::Unhealthy),
            (false, false) => Some(PrefillFallbackReason::NoWorker),
        }
    }

    /// Whether a worker that generates has all but a little of the prompt.
    fn is_cached_where_decoded(&self, route: &Route, trials: &Trials) -> bool {
        let limit = self.config().local_prefill;
        if limit.is_zero() {
            return false;
        }
        let (fleet, leg) = (self.fleet(), Leg::whole());
        let asked = route.asked(&leg, trials.tried());
        let (_, cached) = self.inquire(&fleet, &asked, &mut DecisionTimer::start(), |inquiry| {
            let ranks = inquiry.ranks.iter().zip(inquiry.cached.unwrap_or_default());
            let usable = ranks.filter(|(rank, _)| rank.worker.takes_requests() && rank.has_credit());
            usable.map(|(_, cached)| cached.total()).max().unwrap_or(Tokens::ZERO)
        });
        route.input().saturating_sub(cached) <= limit
    }

    /// Has one worker compute the prompt and another one generate.
    async fn answer_in_two(
        self: &Arc<Self>,
        route: &Route,
        mut prefills: Trials,
        recorder: RequestRecorder,
    ) -> Result<Answered, Missed> {
        let (leg, mut decodes) = (Leg::of(Phase::Prefill), prefills.clone());
        let mut decision = match self.place(route, &leg, &prefills).await {
            Ok(decision) => decision,
            Err(unplaced) => return Err(decodes.missed(Unsent::unplaced(unplaced, recorder))),
        };
        let mut recorder = Some(recorder);
        loop {
            let opened = Opened::of(route, recorder, None);
            let attempt = self.open(decision, &route.asked(&leg, prefills.tried()), opened);
            let tried = match attempt.rank().engine.handoff() {
                Some(Handoff::Bootstrap) => Box::pin(self.ask_both(route, attempt, &decodes)).await,
                _ => self.ask_in_turn(route, attempt, &mut decodes).await,
            };
            let (failed, trials) = match tried {
                Tried::Answered(answered) => return Ok(*answered),
                Tried::DecodeUnsent(unsent) => return Err(decodes.missed(unsent)),
                Tried::PrefillFailed(failed) => (failed, &mut prefills),
                Tried::DecodeFailed(failed) => (failed, &mut decodes),
            };
            let retry = trials.failed(failed.worker, failed.retry).filter(|_| self.may_go_on(trials).is_ok());
            let next = retry.and_then(|reason| self.place_again(route, &leg, &prefills, reason).ok());
            match next {
                Some(next) if failed.recorder.is_some() => (decision, recorder) = (next, failed.recorder),
                _ => {
                    let why = Why::Failed(Box::new(failed.error));
                    return Err(decodes.missed(Unsent { why, recorder: failed.recorder }));
                }
            }
        }
    }
}

/// Engines hand over one prompt for one answer, at the endpoints whose fields tell them so. A prompt that is to be computed
/// whatever is cached gains nothing by it.
fn can_be_handed_over(route: &Route) -> bool {
    let request = &route.request;
    request.endpoint.has_stream_options()
        && !matches!(request.prompt, Prompt::Foreign(_))
        && !request.prompt_list
        && request.choices == 1
        && !request.bypasses_cache
}

// === impl Answered ===

impl Answered {
    /// One worker's own answer.
    fn by(sent: Sent, route: &Route) -> Self {
        let explanation = explanation(&sent.attempt, route);
        Self { sent, correction: UsageCorrection::default(), explanation }
    }

    /// An answer to a prompt that another worker computed, of which it had so many tokens cached.
    fn after(mut self, prefill: HeaderMap, cached: Option<u64>) -> Self {
        self.correction.cached = cached;
        let decode = std::mem::replace(&mut self.explanation, prefill);
        self.explanation.extend(decode);
        self
    }
}

// === impl Trials ===

impl Trials {
    /// What is left of a request that these were to generate for.
    fn missed(&self, unsent: Unsent) -> Missed {
        Missed { unsent, tried: self.tried().to_vec() }
    }
}

// === impl Why ===

impl Why {
    /// Why a request is served whole after this; `None` where that would not help.
    const fn fallback(&self) -> Option<PrefillFallbackReason> {
        match self {
            Self::Failed(error) if matches!(error.kind(), ErrorKind::NotHandedOver { .. }) => {
                Some(PrefillFallbackReason::NoConnector)
            }
            Self::Failed(_) => Some(PrefillFallbackReason::Failed),
            Self::Unplaced(Unplaced::NoWorker(_)) => Some(PrefillFallbackReason::NoWorker),
            Self::Unplaced(_) => None,
        }
    }
}

// === impl Unsent ===

impl Unsent {
    fn unplaced(unplaced: Unplaced, recorder: RequestRecorder) -> Self {
        Self { why: Why::Unplaced(unplaced), recorder: Some(recorder) }
    }
}
