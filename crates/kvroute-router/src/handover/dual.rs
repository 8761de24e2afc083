//! Both at once: the two workers get the request at the same time and find each other by themselves.
//!
//! SGLang works so: the decode worker waits for the prefill worker at the latter's bootstrap address, in a room that the
//! router makes up. Each of them would wait long for a partner that failed, so the first failure calls the other one off.
//! The answer is handed to the client once both have answered; no token of it can come before the prompt is computed.

use std::pin::pin;
use std::sync::Arc;

use kvroute_core::Phase;
use kvroute_engine::AbortCall;

use super::bodies::{Meeting, meeting_decode, meeting_prefill};
use super::serial::{FAULT, NOT_TAKEN_OVER, Prefilled, read, useless};
use super::{Answered, Tried};
use crate::attempt::Attempt;
use crate::dispatch::{Answer, Failed, Failure, Injected, Limits, Sent, ask, explanation};
use crate::placing::Opened;
use crate::pool::Pool;
use crate::rank::Rank;
use crate::retries::{Trials, Unsent, Why};
use crate::route::{Leg, Route};

type Asking = Result<(Answer, Injected), Failure>;

/// How the two questions ended: with both answers, or with what made the other one useless.
enum Both {
    /// The prefill worker's answer, and the other one where it was waited for: not where the prefill is no success.
    Prefilled(Answer, Option<Box<(Answer, Injected)>>),
    PrefillFailed(Failure),
    /// The decode worker's answer is no success; the prefill may still run.
    Refused(Answer, Injected),
    DecodeFailed(Failure),
}

/// The two attempts, each with the time that it has.
struct Two<'a> {
    route: &'a Route,
    prefill: Attempt,
    decode: Attempt,
    limits: [Limits; 2],
}

/// Tells a worker to give up a request that was called off, in case it does not notice that its connection ended.
struct CallOff {
    pool: Arc<Pool>,
    rank: Arc<Rank>,
    call: Option<AbortCall>,
    id: String,
}

// === impl Pool ===

impl Pool {
    /// Finds a worker that takes over what the attempt's worker computes, and asks both.
    pub(super) async fn ask_both(
        self: &Arc<Self>,
        route: &Route,
        mut prefill: Attempt,
        decodes: &Trials,
    ) -> Tried {
        let (engine, lesson) = (prefill.rank().engine, prefill.lesson());
        let recorder = prefill.lend_recorder();
        let mut leg = Leg { engine: Some(engine), lesson, ..Leg::of(Phase::Decode) };
        let decision = match self.place(route, &leg, decodes).await {
            Ok(decision) => decision,
            Err(unplaced) => {
                prefill.give_up();
                return Tried::DecodeUnsent(Unsent { why: Why::Unplaced(unplaced), recorder });
            }
        };
        let opened = Opened::of(route, recorder, leg.lesson.take());
        let decode = self.open(decision, &route.asked(&leg, decodes.tried()), opened);
        self.bring_together(route, prefill, decode, leg).await
    }

    async fn bring_together(
        self: &Arc<Self>,
        route: &Route,
        mut prefill: Attempt,
        mut decode: Attempt,
        mut decode_leg: Leg,
    ) -> Tried {
        let rank = Arc::clone(prefill.rank());
        let meeting = Meeting::at(&rank);
        // Of this attempt only: calling it off must not reach the next one of the same request.
        let id = format!("{}-prefill-{:x}", route.name(), meeting.room);
        let prefill_leg = Leg { members: meeting_prefill(&meeting, &id), ..Leg::of(Phase::Prefill) };
        decode_leg.members = meeting_decode(&meeting);
        let call_off =
            CallOff { pool: Arc::clone(self), call: rank.engine.aborts(), rank: Arc::clone(&rank), id };
        let limits = [Limits::start(&prefill), Limits::start(&decode)];
        let both = first_failure(
            ask(&mut prefill, route, &prefill_leg, &limits[0]),
            ask(&mut decode, route, &decode_leg, &limits[1]),
        )
        .await;
        if matches!(both, Both::Prefilled(..) | Both::PrefillFailed(_)) {
            call_off.in_vain();
        }
        Two { route, prefill, decode, limits }.end(both)
    }
}

// === impl Two ===

impl Two<'_> {
    fn end(mut self, both: Both) -> Tried {
        match both {
            Both::Prefilled(first, second) => self.prefilled(first, second.map(|second| *second)),
            Both::PrefillFailed(failure) => {
                let failed = failure.end(self.prefill);
                Tried::PrefillFailed(Failed { recorder: self.decode.give_up(), ..failed })
            }
            Both::Refused(answer, injected) => {
                if answer.is_fault() {
                    // Whose fault that is cannot be told. Held against both, it soon shows: one of them has all of them.
                    self.prefill.blame_worker(NOT_TAKEN_OVER);
                }
                self.prefill.give_up();
                match answer.is_fault() {
                    true => Tried::DecodeFailed(useless(self.decode, FAULT.to_owned())),
                    false => answered(self.decode, (answer, injected), self.limits[1], self.route),
                }
            }
            Both::DecodeFailed(failure) => {
                self.prefill.give_up();
                Tried::DecodeFailed(failure.end(self.decode))
            }
        }
    }

    fn prefilled(mut self, first: Answer, second: Option<(Answer, Injected)>) -> Tried {
        let cause = match (read(&mut self.prefill, first), second) {
            (Prefilled::Computed(_, cached), Some((answer, injected))) => {
                let explanation = explanation(&self.prefill, self.route);
                self.prefill.hand_on();
                let sent = Sent { attempt: self.decode, answer, injected, limits: self.limits[1] };
                return Tried::Answered(Box::new(Answered::by(sent, self.route).after(explanation, cached)));
            }
            (Prefilled::Refused(head, body), _) => {
                self.prefill.borrow_recorder(self.decode.give_up());
                let answer = (Answer::Whole(head, body), Injected::default());
                return answered(self.prefill, answer, self.limits[0], self.route);
            }
            (Prefilled::Useless(cause) | Prefilled::NotHandedOver(cause), _) => cause,
            (Prefilled::Computed(..), None) => "its status and its answer contradict each other".to_owned(),
        };
        let failed = useless(self.prefill, cause);
        Tried::PrefillFailed(Failed { recorder: self.decode.give_up(), ..failed })
    }
}

fn answered(
    attempt: Attempt,
    (answer, injected): (Answer, Injected),
    limits: Limits,
    route: &Route,
) -> Tried {
    let sent = Sent { attempt, answer, injected, limits };
    Tried::Answered(Box::new(Answered::by(sent, route)))
}

/// Waits for both answers, or for the first one that makes the other one useless.
///
/// A decode worker whose partner says nothing says nothing either, and their limits end at the same moment: the one that
/// is waited for is looked at first, so that it is not the waiting one that is blamed.
async fn first_failure(prefill: impl Future<Output = Asking>, decode: impl Future<Output = Asking>) -> Both {
    let (mut prefill, mut decode) = (pin!(prefill), pin!(decode));
    let (mut first, mut second) = (None, None);
    loop {
        tokio::select! {
            biased;
            asked = &mut prefill, if first.is_none() => match asked {
                Ok((answer, _)) if answer.is_success() => first = Some(answer),
                Ok((answer, _)) => return Both::Prefilled(answer, None),
                Err(failure) => return Both::PrefillFailed(failure),
            },
            asked = &mut decode, if second.is_none() => match asked {
                Ok((answer, injected)) if answer.is_success() => second = Some((answer, injected)),
                Ok((answer, injected)) => return Both::Refused(answer, injected),
                Err(failure) => return Both::DecodeFailed(failure),
            },
        }
        match (first, second) {
            (Some(answer), Some(other)) => return Both::Prefilled(answer, Some(Box::new(other))),
            unfinished => (first, second) = unfinished,
        }
    }
}

// === impl Meeting ===

impl<'a> Meeting<'a> {
    /// Where a prefill worker is met. Of several ranks the room's number says which, as far as the workers go by it.
    fn at(rank: &'a Rank) -> Self {
        let ranks = u64::from(rank.ranks_of_worker.max(1));
        let number = rank.name.dp_rank.get();
        let room = (rand::random::<u64>() >> 1) / ranks * ranks;
        let room = if room == 0 { ranks } else { room } + u64::from(number);
        Self {
            host: rank.worker.config().host(),
            port: rank.bootstrap_port,
            room,
            dp_rank: (ranks > 1).then_some(number),
        }
    }
}

// === impl CallOff ===

impl CallOff {
    /// There is nothing to call off any more.
    fn in_vain(mut self) {
        self.call = None;
    }
}

impl Drop for CallOff {
    fn drop(&mut self) {
        let Some(call) = self.call else { return };
        let (pool, rank, id) = (Arc::clone(&self.pool), Arc::clone(&self.rank), std::mem::take(&mut self.id));
        self.pool.streams().tasks.spawn(async move {
            if let Err(error) = call.send(pool.client(), &rank.worker.config().url, &id).await {
                let Some(unlogged) = pool.resending().call_offs.open() else { return };
                tracing::warn!(
                    worker = %rank.name, %error, unlogged, lost = "it computes a prompt that nobody waits for",
                    "prefill could not be called off"
                );
            }
        });
    }
}
