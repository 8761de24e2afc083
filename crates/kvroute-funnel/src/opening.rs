//! What is known of an attempt at the moment its worker is chosen.
//!
//! Everything of one attempt that is known at selection stands in one value and is added in one call, before
//! any await, so that the stages always describe the same population.

use kvroute_core::{Tokens, invariants};

use crate::SelectionLosses;

/// What one attempt is opened with. Frozen: nothing that happens later changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Whether the prompt was counted, and what the index knew of it.
    pub count: Count,
    /// F1: tokens in the leading blocks of each prompt that some request has computed before; `None` where no history was
    /// asked, which is not the same as zero. Only where the cached stages are known, and not of a decode leg.
    pub history: Option<Tokens>,
    /// What the worker's reports are worth.
    pub reports: ReportExpectation,
    /// What the loss ledger needs: present exactly when the cached stages are. Only a decode leg, which the ledger
    /// leaves out, has cached stages and no terms.
    pub ledger: Option<LedgerTerms>,
    /// Whether its request had an attempt in the same phase before: its input was counted then, too.
    pub is_repeat: bool,
}

/// What is lost by the selection, and what is needed, beside F3 and F4, to tell why tokens were not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerTerms {
    /// F0 − A, with a history in two parts, A − F2 and F2 − F3 with their reasons.
    pub losses: SelectionLosses,
    /// What of F3 its worker can reuse at the most: of each prompt its cached prefix, but for the block with its last
    /// token ([`BlockSize::reusable_tokens`](kvroute_core::BlockSize::reusable_tokens)), summed prompt by prompt.
    pub reusable: Tokens,
}

/// Whether the router knows how many tokens the prompt has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Tokenized by the router.
    Exact {
        /// F0: tokens of the prompt; of a prompt list the sum, not multiplied by `n`.
        input: Tokens,
        /// What the index knew; `None` where no index was asked, which is not the same as zero.
        cached: Option<CachedStages>,
    },
    /// Not tokenized: no F0 to F3.
    Uncounted(UncountedReason),
}

/// Why an attempt's prompt was not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UncountedReason {
    /// The endpoint has no prompt whose reuse could be counted. No report is taken and there is no outcome.
    Endpoint,
    /// The model's chat template is absent or failed.
    Template,
    /// The tokenizer failed.
    Tokenizer,
    /// The router's token ids were shown not to be the engine's.
    Identity,
    /// Images or audio that the router cannot turn into tokens.
    Multimodal,
    /// The operator asked for no counting.
    Off,
}

/// Longest cached prefixes at selection, raw tokens. `selected ≤ best ≤ anywhere ≤ input`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedStages {
    /// A: on any rank whose role could take the attempt, eligible or not.
    pub anywhere: Tokens,
    /// F2: on any rank of the set that the picker chose from.
    pub best: Tokens,
    /// F3: on the rank that was picked.
    pub selected: Tokens,
}

/// Whether the worker's word about reuse can be taken for this attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportExpectation {
    /// One report about the whole attempt.
    Expected,
    /// Two or more prompts on an engine that reports the reuse of only one of them.
    Ambiguous,
    /// The decode leg of a disaggregated request: its engine counts transferred KV as cached.
    Excluded,
}

// === impl Opening ===

impl Opening {
    /// False for endpoints without a prompt, whose attempts have no report outcome at all.
    pub const fn takes_report(&self) -> bool {
        !matches!(self.count, Count::Uncounted(UncountedReason::Endpoint))
    }

    /// True unless the cached stages contradict each other or the input, the history knows more than the input, the losses
    /// between them do not close, or losses or a history are told of an attempt that no index was asked for.
    pub fn is_consistent(&self) -> bool {
        let Count::Exact { input, cached: Some(cached) } = self.count else {
            return self.ledger.is_none() && self.history.is_none();
        };
        let CachedStages { anywhere, best, selected } = cached;
        invariants::cached_stages_are_ordered(selected, best, anywhere, input)
            && self.history.is_none_or(|history| invariants::history_is_within_input(history, input))
            && match &self.ledger {
                Some(terms) => terms.losses.close(input, self.history, &cached),
                None => self.history.is_none(),
            }
    }
}

// === impl Count ===

impl Count {
    /// F0, where it is known.
    pub const fn input(self) -> Option<Tokens> {
        match self {
            Self::Exact { input, .. } => Some(input),
            Self::Uncounted(_) => None,
        }
    }

    /// A, F2 and F3, where an index was asked.
    pub const fn cached(self) -> Option<CachedStages> {
        match self {
            Self::Exact { cached, .. } => cached,
            Self::Uncounted(_) => None,
        }
    }
}

// === impl UncountedReason ===

impl UncountedReason {
    /// Every reason, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::Endpoint, Self::Template, Self::Tokenizer, Self::Identity, Self::Multimodal, Self::Off];

    /// The label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Template => "template",
            Self::Tokenizer => "tokenizer",
            Self::Identity => "identity",
            Self::Multimodal => "multimodal",
            Self::Off => "off",
        }
    }
}
