//! What can be done to a running engine from outside, by HTTP or by whoever started it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::faults::{FaultBoard, Faults, Incident, InvalidFaults};
use crate::ranks::Ranks;
use crate::runner::Told;

/// The switches of an engine and the way to its present process.
#[derive(Clone, Debug)]
pub(crate) struct Controls {
    pub(crate) board: Arc<FaultBoard>,
    current: Arc<Mutex<Ranks>>,
    restarts: mpsc::UnboundedSender<RestartOrder>,
}

/// An order to kill the process, and perhaps to start it again.
#[derive(Debug)]
pub(crate) struct RestartOrder {
    /// How long it lives on, so that the answer to the order gets out.
    pub(crate) grace: Duration,
    /// Whether another process takes its place.
    pub(crate) starts_again: bool,
    /// Told when that is done.
    pub(crate) done: oneshot::Sender<()>,
}

/// How long the answer of an order by HTTP may take to leave.
const ANSWER_GRACE: Duration = Duration::from_millis(50);

// === impl Controls ===

impl Controls {
    pub(crate) fn new(
        board: Arc<FaultBoard>,
        current: Ranks,
    ) -> (Self, mpsc::UnboundedReceiver<RestartOrder>) {
        let (restarts, orders) = mpsc::unbounded_channel();
        (Self { board, current: Arc::new(Mutex::new(current)), restarts }, orders)
    }

    /// The present process.
    pub(crate) fn ranks(&self) -> Ranks {
        self.current.lock().clone()
    }

    /// Another process runs now.
    pub(crate) fn replace(&self, ranks: Ranks) {
        *self.current.lock() = ranks;
    }

    /// Kills the process. It is dead until it is started again.
    pub(crate) fn die(&self) {
        drop(self.order(Duration::ZERO, false));
    }

    /// Replaces all switches and lets happen what is to happen once. Returns when it has happened.
    pub(crate) async fn switch(&self, faults: Faults) -> Result<(), InvalidFaults> {
        if let Some(incident) = self.board.switch(faults)? {
            self.cause(incident).await;
        }
        Ok(())
    }

    /// The same for an order that the process to be restarted must still answer.
    pub(crate) async fn switch_by_http(&self, faults: Faults) -> Result<(), InvalidFaults> {
        match self.board.switch(faults)? {
            Some(Incident::Restart) => drop(self.order_restart(ANSWER_GRACE)),
            Some(incident) => self.cause(incident).await,
            None => {}
        }
        Ok(())
    }

    /// Lets something happen; returns when it has.
    pub(crate) async fn cause(&self, incident: Incident) {
        let told = match incident {
            Incident::Restart => {
                // An engine that is being stopped does not start again.
                let _ = self.order_restart(Duration::ZERO).await;
                return;
            }
            Incident::Reset => Told::AtOnce,
            Incident::LateReset => Told::WithTheNextStep,
            Incident::Wipe => Told::Never,
        };
        let ranks = self.ranks();
        ranks.empty_caches(told).await;
    }

    fn order_restart(&self, grace: Duration) -> oneshot::Receiver<()> {
        self.order(grace, true)
    }

    fn order(&self, grace: Duration, starts_again: bool) -> oneshot::Receiver<()> {
        let (done, is_done) = oneshot::channel();
        // An engine that is being stopped takes no orders.
        let _ = self.restarts.send(RestartOrder { grace, starts_again, done });
        is_done
    }
}
