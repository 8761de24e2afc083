//! Label values as closed sets: a series can only be named by a value of these types, by a phase, or by the
//! name of a configured pool or worker.

use kvroute_core::closed_label;

closed_label! {
    /// Route of a request that a worker is meant to serve. Requests about the router itself are not counted.
    Endpoint {
        /// Chat completions.
        ChatCompletions = "/v1/chat/completions",
        /// Text completions.
        Completions = "/v1/completions",
        /// OpenAI's conversations with items.
        Responses = "/v1/responses",
        /// Anthropic's messages.
        Messages = "/v1/messages",
        /// Vectors of texts.
        Embeddings = "/v1/embeddings",
        /// Documents in the order of how well they answer a query.
        Rerank = "/v1/rerank",
        /// How well pairs of texts belong together.
        Score = "/v1/score",
        /// Token ids of a text or a chat.
        Tokenize = "/tokenize",
        /// Text of token ids.
        Detokenize = "/detokenize",
        /// A path that the router does not serve.
        Unmatched = "unmatched",
    }
}

closed_label! {
    /// How a client's request ended.
    RequestOutcome {
        /// Answered to its end.
        Completed = "completed",
        /// A worker failed and nothing could make up for it.
        Failed = "failed",
        /// The client went away.
        Cancelled = "cancelled",
        /// Refused: by the router before any worker was asked, or by the worker as the client's own fault (4xx).
        Rejected = "rejected",
    }
}

closed_label! {
    /// What a worker does in its pool. An aggregated worker is labelled `decode`, as dashboards expect.
    WorkerType {
        /// Only prompts of disaggregated requests.
        Prefill = "prefill",
        /// Generation, with or without the prompt.
        Decode = "decode",
    }
}

closed_label! {
    /// Whether a worker takes requests, and why not.
    WorkerState {
        /// Takes requests.
        Ready = "ready",
        /// Not probed successfully yet.
        Starting = "starting",
        /// Finishes what it has.
        Draining = "draining",
        /// Fails its probes.
        Unhealthy = "unhealthy",
        /// Its circuit breaker is open.
        Open = "open",
    }
}

closed_label! {
    /// Which workers of a pool are counted.
    Presence {
        /// All that are named for it and have not left.
        Known = "known",
        /// Those of them that take requests.
        Ready = "ready",
    }
}

closed_label! {
    /// A socket that the router listens on.
    Plane {
        /// For clients of the models.
        Data = "data",
        /// For operators and their tools.
        Admin = "admin",
    }
}

closed_label! {
    /// Why a connection ended before a request of it was anybody's.
    RefusedConnection {
        /// As many were served as may be.
        Limit = "limit",
        /// The head of a request was larger than is read.
        HeadTooLarge = "head_too_large",
        /// What came was no head of a request.
        MalformedHead = "malformed_head",
    }
}

closed_label! {
    /// What became of a new configuration of a running router.
    ReloadOutcome {
        /// It was taken over.
        Applied = "applied",
        /// It was refused whole.
        Refused = "refused",
    }
}

closed_label! {
    /// What a KV event did.
    EventKind {
        /// Blocks became cached.
        Stored = "stored",
        /// Blocks left the cache.
        Removed = "removed",
        /// The whole cache was emptied.
        Cleared = "cleared",
        /// Does not concern the prefix index.
        Ignored = "ignored",
        /// Could not be read.
        Undecodable = "undecodable",
    }
}

closed_label! {
    /// Why the index could not take a block as it was announced.
    RejectReason {
        /// Its parent is unknown; it waits aside and counts for no prompt.
        Orphaned = "orphaned",
        /// It waited for its parent, and the rank had as many such blocks as it may.
        Dropped = "dropped",
        /// Its hash named another block before: a clear was missed.
        Conflicting = "conflicting",
        /// Its whole event contradicts itself, or its event or prompt the rank's block size. Counted in those.
        Rejected = "rejected",
    }
}

closed_label! {
    /// Part of a request's way to its worker.
    Stage {
        /// Body read until the prompt is tokenized.
        Preprocess = "preprocess",
        /// Until a worker is chosen and booked; waiting in a queue apart.
        Route = "route",
        /// Until the worker's response headers.
        Dispatch = "dispatch",
    }
}

closed_label! {
    /// Why a request that no worker had room for was turned away.
    QueueRefusal {
        /// As many wait as may wait.
        Full = "full",
        /// It waited as long as it may.
        Timeout = "timeout",
        /// There is no worker that could take it at all.
        NoWorker = "no_worker",
        /// It still waited when the router's drain time was over.
        Stopping = "stopping",
    }
}

closed_label! {
    /// What an engine does with a request that it has.
    EngineRequests {
        /// Computes it.
        Running = "running",
        /// Has not begun with it.
        Waiting = "waiting",
    }
}

closed_label! {
    /// Why a request was sent to another worker.
    RetryReason {
        /// The worker could not be reached: it never had the request.
        Connect = "connect",
        /// The connection broke before any answer had reached the client, though the worker may have had the request.
        Broken = "broken",
        /// The worker answered with status 502, 503 or 504.
        Unavailable = "unavailable",
        /// The worker answered with status 500, or with an error as the first event of a stream.
        Error = "error",
        /// A connection that had brought answers before ended without one: the same worker is asked once more, within the
        /// same attempt.
        Stale = "stale",
    }
}

closed_label! {
    /// Why a request that its worker failed, and that might have been sent to another one, was not.
    RetryRefusal {
        /// The pool's retries are spent.
        Budget = "budget",
        /// It was sent as often as one request may be.
        Limit = "limit",
        /// Two workers failed under it, which may be its own doing.
        Suspect = "suspect",
        /// No other worker can take it.
        NoWorker = "no_worker",
        /// Its caller named the worker.
        Pinned = "pinned",
    }
}

closed_label! {
    /// Whether the router cuts prompts into the tokens of a worker's engine.
    IdentityState {
        /// Compared, and equal.
        Proven = "proven",
        /// Not compared yet, or not often enough.
        Unproven = "unproven",
        /// The engine's tokens are others.
        Mismatch = "mismatch",
    }
}

closed_label! {
    /// Result of one comparison of the router's tokens with an engine's.
    IdentityCheck {
        /// The same.
        Equal = "equal",
        /// The prompt has another length.
        Length = "length",
        /// The prompt has other ids.
        Ids = "ids",
        /// The engine was asked and did not tell.
        Failed = "failed",
    }
}

closed_label! {
    /// Whether a tokenizer's cache had a token.
    TokenizerCache {
        /// It had it.
        Hit = "hit",
        /// It had to be made.
        Miss = "miss",
    }
}

closed_label! {
    /// Why a stream went on with another worker.
    MigrationReason {
        /// The connection to its worker broke.
        Broken = "broken",
        /// Nothing came for too long.
        Stalled = "stalled",
        /// The worker ended it without finishing it.
        EndedEarly = "ended_early",
    }
}

closed_label! {
    /// Why the prompt of a request was not computed by a prefill worker.
    PrefillFallbackReason {
        /// There is none.
        NoWorker = "no_worker",
        /// None of them is well.
        Unhealthy = "unhealthy",
        /// The one that was asked failed.
        Failed = "failed",
        /// The one that was asked computed it and said nothing of where its KV lies: it was started without a connector.
        NoConnector = "no_connector",
        /// Enough of it was cached where it is decoded.
        Cached = "cached",
        /// It cannot be handed over: a list of prompts, several choices, or an endpoint that has no way for it.
        Unsupported = "unsupported",
    }
}
