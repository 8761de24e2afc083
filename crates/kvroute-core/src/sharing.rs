//! How replicas that share what they learned are doing.

closed_label! {
    /// Whether this replica's history is the whole fleet's or only its own.
    SharingState {
        /// Nothing is shared: this replica knows only what it served itself.
        Off = "off",
        /// Connected, and nothing was lost lately.
        On = "on",
        /// Not connected, or updates were lost: other replicas' prompts may be missing.
        Degraded = "degraded",
    }
}

closed_label! {
    /// Which way a message to or from other replicas went.
    Direction {
        /// From this replica.
        Sent = "sent",
        /// To this replica.
        Received = "received",
    }
}

closed_label! {
    /// What became of a message to or from other replicas.
    MessageResult {
        /// Handed to the connection, or understood and used.
        Ok = "ok",
        /// Came back to the replica that sent it; ignored.
        Own = "own",
        /// About another model, block size or scheme than any that is shared here; ignored.
        OtherDomain = "other_domain",
        /// Of a version that this replica does not speak; ignored.
        OtherVersion = "other_version",
        /// Nothing that a replica sends; ignored.
        Malformed = "malformed",
        /// A part of a transfer that is not waited for (any more); ignored.
        Stale = "stale",
        /// Sent by a peer, by its numbering, and never arrived.
        Lost = "lost",
    }
}
