//! How far one rank's part of the index can be trusted, from everything that is known about it.
//!
//! The stream's own state is what its numbers prove. It cannot see three things. An engine that stopped publishing
//! looks like an idle one; only a request that must have stored a block and was followed by nothing tells them apart.
//! A cache that was wiped without a word looks full; only reports that fall short of what was predicted, several in a
//! row, tell. And a stream that lost something may have made up for it: an engine stores into the places of its oldest
//! blocks, so after as many new blocks as its whole cache holds, nothing of what was missed can still be there.
//!
//! Where several states apply, the one that asks for the most care wins. A rank that is not connected or silent is
//! `blind` whatever else is known, because contradictions follow from silence and the silence is what must be mended.
//! `suspect` comes before `degraded`: both may hold, and only the first withholds credit. A remembered rank is none of
//! this, since reports correct it directly.
//!
//! No clock: the caller says when things happened, by any monotonic time, and asks for the state after every input and
//! about once a second.

use std::time::Duration;

use kvroute_core::{Blocks, SourceState, Tokens};

use super::{SourceReason, SourceStatus};

/// How long an engine may be silent behind a request that must have stored a block. Engines publish within the step
/// that fills it; the rest is for a router that is behind with its work.
const SILENCE: Duration = Duration::from_secs(15);
/// Reports in a row that contradict the index before it is suspected. One or two happen by eviction between the
/// decision and the prefill.
const STRIKES: u32 = 3;
/// Predictions below this say nothing: the engine computes the last block anew, and may have evicted another.
const TELLING: Blocks = Blocks::new(2);

/// Trust in one rank.
#[derive(Clone, Debug)]
pub struct RankTrust {
    is_remembered: bool,
    capacity: Option<Blocks>,
    stream: SourceStatus,
    /// New blocks since the last clear, so since the last loss: every loss clears.
    stored: Blocks,
    heard: Option<Duration>,
    /// End of the first request that must have stored a block, if nothing was heard since it was dispatched.
    unheard_since: Option<Duration>,
    strikes: u32,
    /// The latest time that any input named.
    latest: Duration,
    /// The latest time at which a clear may have happened.
    cleared: Option<Duration>,
    /// A clear names no time of its own: it is over by that of the next input.
    is_clearing: bool,
}

// === impl RankTrust ===

impl RankTrust {
    /// A rank whose events are about to be followed, of an engine that can hold `capacity` blocks.
    pub fn reported(capacity: Option<Blocks>, now: Duration) -> Self {
        Self {
            is_remembered: false,
            capacity: capacity.filter(|capacity| *capacity > Blocks::ZERO),
            stream: SourceStatus::degraded(SourceReason::NotConnected),
            stored: Blocks::ZERO,
            heard: None,
            unheard_since: None,
            strikes: 0,
            latest: now,
            cleared: None,
            is_clearing: false,
        }
    }

    /// A rank without events. Nothing changes its state.
    pub fn remembered() -> Self {
        Self { is_remembered: true, ..Self::reported(None, Duration::ZERO) }
    }

    /// The stream's own state changed.
    pub fn stream(&mut self, status: SourceStatus, now: Duration) {
        self.see(now);
        self.stream = status;
    }

    /// A batch of events came, live or by replay, whatever it held.
    pub fn heard(&mut self, now: Duration) {
        self.see(now);
        self.heard = Some(self.latest);
        self.unheard_since = None;
    }

    /// So many blocks were stored that the rank did not hold before.
    pub fn applied(&mut self, stored: Blocks) {
        self.stored += stored;
    }

    /// The rank's blocks are forgotten: a clear that the engine announced, a restart, or a loss.
    pub fn cleared(&mut self) {
        self.stored = Blocks::ZERO;
        self.strikes = 0;
        self.cleared = Some(self.latest);
        self.is_clearing = true;
    }

    /// A request is over, in the course of which the engine must have stored a block that was not there before.
    pub fn must_have_stored(&mut self, dispatched: Duration, finished: Duration) {
        self.see(finished);
        if self.heard.is_some_and(|heard| heard >= dispatched) {
            return;
        }
        let first = self.unheard_since.map_or(finished, |since| since.min(finished));
        self.unheard_since = Some(first);
    }

    /// One attempt's report: how many leading blocks were predicted when it was dispatched, and how many of their
    /// tokens the engine did not reuse, those of the last block not counted. A report about what was known before a
    /// clear says nothing about what is known now.
    pub fn delivered(&mut self, dispatched: Duration, predicted: Blocks, lost_beyond_last_block: Tokens) {
        let is_outdated = self.cleared.is_some_and(|cleared| dispatched <= cleared);
        if is_outdated || predicted < TELLING {
            return;
        }
        let confirms = lost_beyond_last_block == Tokens::ZERO;
        self.strikes = if confirms { 0 } else { self.strikes.saturating_add(1) };
    }

    /// The state at a time.
    pub fn status(&self, now: Duration) -> SourceStatus {
        if self.is_remembered {
            return SourceStatus::REMEMBERED;
        }
        if self.stream.state == SourceState::Blind {
            return self.stream;
        }
        if self.is_silent(now) {
            return SourceStatus::blind(self.reason_of_silence());
        }
        if self.strikes >= STRIKES {
            return SourceStatus::SUSPECT;
        }
        if self.is_refilled() { SourceStatus::EXACT } else { self.stream }
    }

    /// Whether missed events are being fetched, or live ones wait until it is clear whose they are: what is in doubt now
    /// is settled soon.
    pub fn has_open_gap(&self) -> bool {
        matches!(self.stream.reason, Some(SourceReason::CatchingUp | SourceReason::Unidentified))
    }

    /// While a gap is open live events wait behind it, and their absence proves nothing.
    fn is_silent(&self, now: Duration) -> bool {
        !self.has_open_gap() && self.unheard_since.is_some_and(|since| now.saturating_sub(since) >= SILENCE)
    }

    /// An engine that is polled and never gave anything says more by that than by its silence.
    fn reason_of_silence(&self) -> SourceReason {
        let unheard = self.stream.reason.filter(|reason| *reason == SourceReason::NothingPolled);
        unheard.unwrap_or(SourceReason::Silent)
    }

    fn is_refilled(&self) -> bool {
        let has_lost = self.stream.reason.is_some_and(SourceReason::is_loss);
        has_lost && self.capacity.is_some_and(|capacity| self.stored >= capacity)
    }

    fn see(&mut self, now: Duration) {
        self.latest = self.latest.max(now);
        if std::mem::take(&mut self.is_clearing) {
            self.cleared = Some(self.latest);
        }
    }
}

#[cfg(test)]
mod tests;
