//! When the event stream could not tell what the cache holds, through an injected fault.
//!
//! A follower of the events is wrong in these times through no fault of its own, and only in these times. They are
//! kept here because the engine alone knows them: a lost message is seen with the next one that arrives, a reset
//! that is announced late with its announcement, and what is never announced with the next clear or restart.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Ended periods that are kept; of more, the oldest are forgotten.
const KEPT: usize = 65_536;

/// One time in which the events did not tell what the cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnseenPeriod {
    /// Since when.
    pub from: Instant,
    /// When the next message made it visible; `None` while nothing has.
    pub until: Option<Instant>,
}

/// Keeps the periods of one engine.
#[derive(Debug, Default)]
pub(crate) struct Unseen(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    ended: VecDeque<UnseenPeriod>,
    /// Since when something is true that the next message will show.
    until_message: Option<Instant>,
    /// Since when something is true that only a clear will mend.
    until_clear: Option<Instant>,
    /// A clear was in a message that was lost: the next message shows it too.
    has_lost_clear: bool,
}

// === impl Unseen ===

impl Unseen {
    /// The next message that arrives will show what happened now. `clears`: a clear was lost.
    pub(crate) fn until_message(&self, clears: bool) {
        let state = &mut *self.0.lock();
        state.until_message.get_or_insert_with(Instant::now);
        state.has_lost_clear |= clears;
    }

    /// No message will ever show what happened now, but a clear will mend it.
    pub(crate) fn until_clear(&self) {
        self.0.lock().until_clear.get_or_insert_with(Instant::now);
    }

    /// A message is on its way to those who listen.
    pub(crate) fn told(&self, clears: bool) {
        let state = &mut *self.0.lock();
        state.end(clears || state.has_lost_clear);
    }

    /// The process is another one: whoever is connected hears of it.
    pub(crate) fn restarted(&self) {
        self.0.lock().end(true);
    }

    /// Every period, the open ones last.
    pub(crate) fn periods(&self) -> Vec<UnseenPeriod> {
        let state = self.0.lock();
        let open = [state.until_message, state.until_clear].into_iter().flatten();
        let open = open.map(|from| UnseenPeriod { from, until: None });
        state.ended.iter().copied().chain(open).collect()
    }
}

// === impl State ===

impl State {
    fn end(&mut self, is_cleared: bool) {
        let mut ended: Vec<_> = self.until_message.take().into_iter().collect();
        if is_cleared {
            ended.extend(self.until_clear.take());
            self.has_lost_clear = false;
        }
        let until = Some(Instant::now());
        self.ended.extend(ended.into_iter().map(|from| UnseenPeriod { from, until }));
        while self.ended.len() > KEPT {
            self.ended.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(unseen: &Unseen) -> usize {
        unseen.periods().iter().filter(|period| period.until.is_none()).count()
    }

    #[test]
    fn a_lost_message_is_seen_with_the_next_one() {
        let unseen = Unseen::default();
        unseen.until_message(false);
        unseen.until_message(false);
        assert_eq!((unseen.periods().len(), open(&unseen)), (1, 1));
        unseen.told(false);
        unseen.told(false);
        assert_eq!((unseen.periods().len(), open(&unseen)), (1, 0));
    }

    #[test]
    fn what_is_never_announced_ends_with_a_clear_even_a_lost_one() {
        for clear in [
            &(|unseen: &Unseen| unseen.told(true)) as &dyn Fn(&Unseen),
            &|unseen| unseen.restarted(),
            &|unseen| {
                unseen.until_message(true);
                unseen.told(false);
            },
        ] {
            let unseen = Unseen::default();
            unseen.until_clear();
            unseen.told(false);
            assert_eq!(open(&unseen), 1);
            clear(&unseen);
            assert_eq!(open(&unseen), 0);
        }
    }
}
