//! Says what happens to a rank's source, to whoever applies it.

use kvroute_core::WorkerRank;
use tokio::sync::mpsc;

use super::{SourceChange, SourceUpdate};
use crate::events::{SourceAction, SourceStatus};

/// The updates have no receiver any more.
#[derive(Debug)]
pub(super) struct Unheard;

/// Sends updates of one rank.
#[derive(Debug)]
pub(super) struct Reporter {
    rank: WorkerRank,
    updates: mpsc::Sender<SourceUpdate>,
    status: Option<SourceStatus>,
}

// === impl Reporter ===

impl Reporter {
    pub(super) const fn new(rank: WorkerRank, updates: mpsc::Sender<SourceUpdate>) -> Self {
        Self { rank, updates, status: None }
    }

    /// Sends what an action changes, and gives back the number from which it wants a replay.
    pub(super) async fn tell(&self, action: SourceAction) -> Result<Option<u64>, Unheard> {
        let change = match action {
            SourceAction::RequestReplay { from } => return Ok(Some(from)),
            SourceAction::Clear => SourceChange::Clear,
            SourceAction::Apply { batch, position } => SourceChange::Apply { batch, position },
            SourceAction::Count(incident) => SourceChange::Incident(incident),
        };
        self.send(change).await.map(|()| None)
    }

    /// Sends the state if it is another one.
    pub(super) async fn tell_status(&mut self, status: SourceStatus) -> Result<(), Unheard> {
        if self.status == Some(status) {
            return Ok(());
        }
        self.status = Some(status);
        self.send(SourceChange::Status(status)).await
    }

    async fn send(&self, change: SourceChange) -> Result<(), Unheard> {
        let update = SourceUpdate { rank: self.rank.clone(), change };
        self.updates.send(update).await.map_err(|_| Unheard)
    }
}
