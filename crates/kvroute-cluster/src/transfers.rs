//! What is given to replicas that join: their turns, and how fast.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kvroute_core::SequenceHash;
use kvroute_history::{Domain, ExportCursor, History};
use tokio::time::{Instant, sleep_until};

use crate::message::{Origin, PartEnd};

/// Transfers that run or wait at a time; whoever asks beyond is refused, and asks another replica.
const MOST_TRANSFERS: usize = 8;

/// Refusals that wait at a time; whoever is beyond hears nothing, and asks another replica after a while.
const MOST_WAITING: usize = 4 * MOST_TRANSFERS;

/// All transfers, the next one in front.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    turns: VecDeque<Transfer>,
}

/// One replica that asked.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) to: Origin,
    pub(crate) number: u64,
    pub(crate) index: u32,
    pub(crate) domain: Arc<Domain>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// What was copied out and not sent yet, and where the copy goes on.
    History { history: Arc<History>, next: Option<ExportCursor>, copied: Vec<SequenceHash> },
    /// There is nothing to give.
    None,
}

/// Lets bytes through at a steady rate.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: f64,
    free: Instant,
}

// === impl Transfers ===

impl Transfers {
    /// A replica asked for a history, or for one that is not there. It has one transfer of a domain at most.
    pub(crate) fn request(
        &mut self,
        (to, number): (Origin, u64),
        domain: Arc<Domain>,
        history: Option<Arc<History>>,
    ) {
        self.turns.retain(|other| other.to != to || other.domain != domain);
        if self.turns.len() >= MOST_WAITING {
            return;
        }
        let running = self.turns.iter().filter(|transfer| transfer.gives()).count();
        let source = match history.filter(|_| running < MOST_TRANSFERS) {
            Some(history) => {
                Source::History { history, next: Some(ExportCursor::default()), copied: Vec::new() }
            }
            None => Source::None,
        };
        self.turns.push_back(Transfer { to, number, index: 0, domain, source });
    }

    /// Whose turn it is.
    pub(crate) fn take(&mut self) -> Option<Transfer> {
        self.turns.pop_front()
    }

    /// It goes on after the others.
    pub(crate) fn put_back(&mut self, transfer: Transfer) {
        self.turns.push_back(transfer);
    }
}

// === impl Transfer ===

impl Transfer {
    const fn gives(&self) -> bool {
        matches!(self.source, Source::History { .. })
    }

    /// The next part, of at most `most` hashes.
    pub(crate) fn next_part(&mut self, most: usize) -> (Vec<SequenceHash>, PartEnd) {
        let Source::History { history, next, copied } = &mut self.source else {
            return (Vec::new(), PartEnd::Refused);
        };
        while let Some(from) = next.filter(|_| copied.len() < most) {
            *next = history.export(from, copied);
        }
        let behind = copied.split_off(copied.len().min(most));
        let part = std::mem::replace(copied, behind);
        let is_last = copied.is_empty() && next.is_none();
        (part, if is_last { PartEnd::Last } else { PartEnd::More })
    }
}

// === impl Pace ===

impl Pace {
    /// `rate`: bytes a second.
    pub(crate) fn new(rate: f64) -> Self {
        Self { rate: rate.max(1.0), free: Instant::now() }
    }

    /// Waits until these bytes may have gone.
    pub(crate) async fn spend(&mut self, bytes: usize) {
        self.free = self.free.max(Instant::now()) + Duration::from_secs_f64(bytes as f64 / self.rate);
        sleep_until(self.free).await;
    }
}

#[cfg(test)]
mod tests;
