//! Which part of a request a worker takes.

use crate::Phase;

closed_label! {
    /// What a worker does of a request.
    WorkerRole {
        /// Computes prompts and generates.
        Aggregated = "aggregated",
        /// Computes prompts, and hands their KV over to a decode worker.
        Prefill = "prefill",
        /// Generates from KV that is handed over; it can compute prompts itself as well.
        Decode = "decode",
    }
}

// === impl WorkerRole ===

impl WorkerRole {
    /// Whether such a worker may take an attempt of this phase. A decode worker has the whole model, so it can serve a
    /// whole request where handing over is not worth it, or nobody is there to hand over.
    pub const fn takes(self, phase: Phase) -> bool {
        match phase {
            Phase::Aggregated => matches!(self, Self::Aggregated | Self::Decode),
            Phase::Prefill => matches!(self, Self::Prefill),
            Phase::Decode => matches!(self, Self::Decode),
        }
    }
}
