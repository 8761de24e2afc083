//! One after the other: the answer of the prefill worker says what the decode worker is to be told.
//!
//! vLLM's connectors and TensorRT-LLM work so. The prefill is asked for a whole answer of one token; what it says of its
//! own about where the KV lies is passed on as it came.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::response::Parts;
use kvroute_core::{Phase, Tokens};
use kvroute_engine::EngineKind;
use kvroute_metrics::RequestRecorder;
use kvroute_openai::{BodyScan, Observation, TokenIds, UsageCorrection};

use super::stranded::Computed;
use super::{Answered, Tried, bodies};
use crate::attempt::Attempt;
use crate::dispatch::{Answer, Failed, Failure, Sent, dispatch, explanation};
use crate::history::Lesson;
use crate::pool::Pool;
use crate::retries::Trials;
use crate::route::{Leg, Member, Route};
use crate::worker::Pass;

/// Said of a decode worker whose status says that it could not serve a request.
pub(super) const FAULT: &str = "it answered a prompt that was computed elsewhere with a fault";

/// The same, of the worker that had computed the prompt.
pub(super) const NOT_TAKEN_OVER: &str = "the worker that was to take its prompt over answered with a fault";

/// A computed prompt, on its way to whoever generates.
struct HandedOver {
    engine: EngineKind,
    members: Vec<Member>,
    computed: Computed,
    /// What the prefill worker had cached of it.
    cached: Option<u64>,
    lesson: Option<Lesson>,
    recorder: Option<RequestRecorder>,
    /// What the prefill tells of its worker, known once somebody has taken the prompt over.
    pass: Option<Pass>,
    explanation: HeaderMap,
}

/// What a prefill worker's answer comes to.
pub(super) enum Prefilled {
    /// What the decode worker is to be told.
    Computed(Vec<Member>, Option<u64>),
    /// The request itself is refused.
    Refused(Parts, Bytes),
    /// It is of no use, in words.
    Useless(String),
    /// It does not say where the KV lies: what to do about that.
    NotHandedOver(String),
}

// === impl Pool ===

impl Pool {
    /// Has the attempt's worker compute the prompt, and then finds one that takes over.
    pub(super) async fn ask_in_turn(
        self: &Arc<Self>,
        route: &Route,
        attempt: Attempt,
        decodes: &mut Trials,
    ) -> Tried {
        let handed = match self.prefill(route, attempt).await {
            Ok(handed) => handed,
            Err(tried) => return tried,
        };
        let HandedOver { engine, members, computed, cached, lesson, recorder, pass, explanation } = handed;
        let leg = Leg { engine: Some(engine), members, lesson, ..Leg::of(Phase::Decode) };
        match self.send(route, &leg, decodes, recorder).await {
            // Most likely the KV could not be had: an engine says so by a fault of its own.
            // Whose fault that is cannot be told. Held against both, it soon shows: one of them has all of them.
            Ok(Sent { attempt, answer, .. }) if answer.is_fault() => {
                if let Some(pass) = pass {
                    pass.failed(NOT_TAKEN_OVER);
                }
                Tried::DecodeFailed(useless(attempt, FAULT.to_owned()))
            }
            Ok(sent) => {
                computed.taken();
                if let Some(pass) = pass {
                    pass.succeeded();
                }
                Tried::Answered(Box::new(Answered::by(sent, route).after(explanation, cached)))
            }
            Err(unsent) => {
                if let Some(pass) = pass {
                    pass.succeeded();
                }
                Tried::DecodeUnsent(unsent)
            }
        }
    }

    async fn prefill(self: &Arc<Self>, route: &Route, attempt: Attempt) -> Result<HandedOver, Tried> {
        let engine = attempt.rank().engine;
        let leg = Leg { members: bodies::prefill(engine.handoff()), ..Leg::of(Phase::Prefill) };
        let sent = dispatch(attempt, route, &leg).await.map_err(Tried::PrefillFailed)?;
        let Sent { mut attempt, answer, injected, limits } = sent;
        let members = match read(&mut attempt, answer) {
            Prefilled::Computed(members, cached) => (members, cached),
            Prefilled::Refused(head, body) => {
                let sent = Sent { attempt, answer: Answer::Whole(head, body), injected, limits };
                return Err(Tried::Answered(Box::new(Answered::by(sent, route))));
            }
            Prefilled::Useless(cause) => return Err(Tried::PrefillFailed(useless(attempt, cause))),
            Prefilled::NotHandedOver(remedy) => {
                return Err(Tried::PrefillFailed(Failure::NotHandedOver(remedy).end(attempt)));
            }
        };
        let (members, cached) = members;
        Ok(HandedOver {
            engine,
            members,
            computed: Computed::new(self, route.input()),
            cached,
            lesson: attempt.lesson(),
            pass: attempt.take_pass(),
            explanation: explanation(&attempt, route),
            recorder: attempt.hand_on(),
        })
    }
}

/// Reads a prefill worker's answer, and takes its report.
pub(super) fn read(attempt: &mut Attempt, answer: Answer) -> Prefilled {
    let (head, body) = match answer {
        Answer::Whole(head, body) => (head, body),
        Answer::Stream(..) => return Prefilled::Useless("it answered a prefill with a stream".to_owned()),
    };
    if head.status.is_client_error() {
        return Prefilled::Refused(head, body);
    }
    if !head.status.is_success() {
        return Prefilled::Useless(format!("it answered a prefill with status {}", head.status));
    }
    let scan = BodyScan::read_correcting(body.clone(), TokenIds::Ignore, UsageCorrection::default());
    attempt.observe(&scan.observations, &[]);
    if scan.observations.contains(&Observation::Error) {
        return Prefilled::Useless("it answered a prefill with an error".to_owned());
    }
    let engine = attempt.rank().engine;
    match bodies::decode(engine.handoff(), &body) {
        Some(members) => Prefilled::Computed(members, attempt.reported_reuse().map(Tokens::get)),
        None => Prefilled::NotHandedOver(format!(
            "start {engine} with what transfers KV, or set the worker's role to \"aggregated\""
        )),
    }
}

/// Closes an attempt whose answer is of no use. The client has seen nothing of it, so it is as if its worker had hung up.
pub(super) fn useless(attempt: Attempt, cause: String) -> Failed {
    Failure::Broke(cause).end(attempt)
}
