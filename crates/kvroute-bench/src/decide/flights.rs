//! Attempts in flight, as many at any time: each new one is followed by the first token of one that is half through and
//! by the end of the oldest.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::contestant::{Contestant, Parts, Request};

/// What one caller has under way.
pub(crate) struct Flights<C: Contestant> {
    room: C::Room,
    /// Half of the attempts wait for their first token, half have had it.
    half: usize,
    waiting: VecDeque<C::Placed>,
    answering: VecDeque<C::Placed>,
}

/// What a new attempt and the one that it replaced cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) parts: Parts,
    /// Nothing as long as there are not enough attempts.
    pub(crate) first_token: Option<Duration>,
    pub(crate) release: Option<Duration>,
}

// === impl Flights ===

impl<C: Contestant> Flights<C> {
    /// None yet, and that many later on.
    pub(crate) fn new(in_flight: usize) -> Self {
        Self {
            room: C::Room::default(),
            half: in_flight / 2,
            waiting: VecDeque::new(),
            answering: VecDeque::new(),
        }
    }

    /// Places a request, and ends an older one if there are enough.
    pub(crate) fn step(&mut self, contestant: &C, request: &Arc<Request>) -> Result<Step> {
        let (placed, parts) = contestant.decide(request, &mut self.room)?;
        self.waiting.push_back(placed);
        let (mut first_token, mut release) = (None, None);
        if self.waiting.len() > self.half
            && let Some(computed) = self.waiting.pop_front()
        {
            first_token = Some(contestant.first_token(&computed)?);
            self.answering.push_back(computed);
        }
        if self.answering.len() > self.half
            && let Some(oldest) = self.answering.pop_front()
        {
            release = Some(contestant.release(oldest)?);
        }
        Ok(Step { parts, first_token, release })
    }

    pub(crate) fn count(&self) -> usize {
        self.waiting.len() + self.answering.len()
    }

    /// Whether every further attempt replaces one.
    pub(crate) fn are_enough(&self) -> bool {
        self.count() >= 2 * self.half
    }
}
