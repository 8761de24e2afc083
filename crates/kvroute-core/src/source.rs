//! How far the index can be trusted about one rank, and how it recovers.

closed_label! {
    /// Trust in what the index knows of one rank.
    SourceState {
        /// The event stream is contiguous.
        Exact = "exact",
        /// Blocks may be missing: after a gap, or while the connection is down.
        Degraded = "degraded",
        /// Nothing is heard from the engine.
        Blind = "blind",
        /// The engine's reports contradict the index.
        Suspect = "suspect",
        /// No events: the router remembers what it placed.
        Remembered = "remembered",
    }
}

closed_label! {
    /// How a replay of missed event batches ended.
    ReplayOutcome {
        /// Everything that was asked for came.
        Complete = "complete",
        /// The engine no longer had all of it.
        Short = "short",
        /// No end came in time, or the connection failed.
        Failed = "failed",
    }
}
