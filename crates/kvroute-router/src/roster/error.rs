//! Why a worker cannot be added, drained or removed: the thing, what is wrong with it, the remedy.

use kvroute_core::WorkerId;

/// Why what was asked of a worker cannot be done. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RosterError {
    /// It is there.
    #[error("worker {0} exists already; remove it first if it is to be another one")]
    Exists(WorkerId),
    /// It is about to leave.
    #[error("worker {0} is leaving: requests still run there; wait until it is not listed any more")]
    Leaving(WorkerId),
    /// There is none of that name.
    #[error("there is no worker {0}; GET /api/workers lists them")]
    Unknown(WorkerId),
    /// No pool serves that model.
    #[error("no pool serves model {model:?}; name one of: {served}")]
    UnknownModel {
        /// What was asked for.
        model: String,
        /// What there is, with commas between them.
        served: String,
    },
    /// There are several pools.
    #[error("model is missing and there are several pools; name one of: {served}")]
    ModelMissing {
        /// What there is, with commas between them.
        served: String,
    },
    /// The pool did not hand prompts over when it was made.
    #[error(
        "worker {worker} has role \"prefill\", and no worker of its pool had when the router started: handing prompts over \
         cannot begin while the router runs; configure the worker and restart the router"
    )]
    NoHandover {
        /// The worker.
        worker: WorkerId,
    },
    /// The router stops.
    #[error("the router is stopping; ask another one")]
    Stopping,
}
