//! Whether the sharing is whole, from what happened to it.

use std::time::Duration;

use kvroute_core::SharingState;
use tokio::time::Instant;

/// What happened to the sharing lately.
#[derive(Debug, Default)]
pub(crate) struct Health {
    is_connected: bool,
    /// The server said on this connection that something is not allowed.
    is_refused: bool,
    /// Losses that were counted up to the last look.
    losses: u64,
    last_loss: Option<Instant>,
    told: Option<SharingState>,
}

// === impl Health ===

impl Health {
    /// A connection begins or ends.
    pub(crate) const fn connected(&mut self, is_connected: bool) {
        self.is_connected = is_connected;
        self.is_refused = false;
    }

    /// The server refused something. True for the first time on this connection.
    pub(crate) const fn refused(&mut self) -> bool {
        !std::mem::replace(&mut self.is_refused, true)
    }

    /// The new state, if it is another one than was told last. `losses`: all messages lost so far, either way.
    pub(crate) fn change(&mut self, losses: u64, quiet: Duration, now: Instant) -> Option<SharingState> {
        if losses != self.losses {
            (self.losses, self.last_loss) = (losses, Some(now));
        }
        let is_quiet = self.last_loss.is_none_or(|last| now.duration_since(last) >= quiet);
        let is_whole = self.is_connected && !self.is_refused && is_quiet;
        let state = if is_whole { SharingState::On } else { SharingState::Degraded };
        (self.told.replace(state) != Some(state)).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(10);

    #[test]
    fn only_a_connection_makes_the_sharing_whole() {
        let (mut health, now) = (Health::default(), Instant::now());
        assert_eq!(health.change(0, QUIET, now), Some(SharingState::Degraded));
        health.connected(true);
        assert_eq!(health.change(0, QUIET, now), Some(SharingState::On));
        assert_eq!(health.change(0, QUIET, now), None);
        health.connected(false);
        assert_eq!(health.change(0, QUIET, now), Some(SharingState::Degraded));
    }

    #[test]
    fn a_loss_degrades_until_it_has_been_quiet() {
        let (mut health, now) = (Health::default(), Instant::now());
        health.connected(true);
        health.change(0, QUIET, now);
        assert_eq!(health.change(1, QUIET, now), Some(SharingState::Degraded));
        assert_eq!(health.change(2, QUIET, now + QUIET / 2), None);
        assert_eq!(health.change(2, QUIET, now + QUIET), None);
        assert_eq!(health.change(2, QUIET, now + QUIET / 2 + QUIET), Some(SharingState::On));
    }

    #[test]
    fn a_refusal_degrades_until_the_next_connection_and_is_new_once() {
        let (mut health, now) = (Health::default(), Instant::now());
        health.connected(true);
        assert!(health.refused());
        assert!(!health.refused());
        assert_eq!(health.change(0, QUIET, now + QUIET), Some(SharingState::Degraded));
        health.connected(true);
        assert_eq!(health.change(0, QUIET, now + QUIET), Some(SharingState::On));
        assert!(health.refused());
    }
}
