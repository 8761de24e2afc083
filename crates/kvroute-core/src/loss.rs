//! Why a selection gives up a longer cached prefix than the one that it takes.

closed_label! {
    /// Why a rank that could serve the model must not get an attempt. Of several reasons the first in this order counts.
    Exclusion {
        /// The caller named another rank, or none where one must be named.
        Pinned = "pinned",
        /// The request's session belongs to another rank.
        Affinity = "affinity",
        /// Finishes what it has and gets nothing more.
        Draining = "draining",
        /// Not started yet, not answering, or failing its requests.
        Unhealthy = "unhealthy",
        /// Does not serve the adapter that the request names.
        Adapter = "adapter",
        /// Of another kind of engine than the one that the prompt's KV comes from.
        Filtered = "filtered",
        /// An earlier attempt of the request failed there.
        AlreadyTried = "already_tried",
    }
}

closed_label! {
    /// Why the rank with the longest cached prefix among those that could be picked was not, the first that applies.
    PlacementReason {
        /// The policy does not look at the index.
        Policy = "policy",
        /// It had the lowest cost, and the temperature chose another rank.
        Sampling = "sampling",
        /// It had the lowest cost, and so had the rank that was drawn.
        Tie = "tie",
        /// It had more work waiting or running.
        Load = "load",
        /// It had more requests in flight.
        RequestCount = "request_count",
        /// It was given more work lately.
        Recent = "recent",
        /// Its blocks lie on a tier of lower weight.
        TierWeight = "tier_weight",
        /// Another rank is about to compute the same prompt.
        Expected = "expected",
        /// Its source is not to be trusted, so its cache earned no credit.
        Trust = "trust",
    }
}
