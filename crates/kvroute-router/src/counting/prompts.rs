//! Prompts as token ids, and who made them.

use std::ops::Deref;
use std::sync::Arc;

use kvroute_core::{TokenId, WorkerId};

/// Token ids, one list a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenizedPrompts {
    lists: Arc<Vec<Vec<TokenId>>>,
    origin: Origin,
}

/// Who made token ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The client sent them.
    Client,
    /// The router's own tokenizer.
    Router,
    /// A worker's tokenize endpoint; `None` where it was asked earlier and its answer kept.
    Engine(Option<WorkerId>),
}

// === impl TokenizedPrompts ===

impl TokenizedPrompts {
    /// One list a prompt.
    pub(crate) fn new(lists: impl Into<Arc<Vec<Vec<TokenId>>>>, origin: Origin) -> Self {
        Self { lists: lists.into(), origin }
    }

    /// Who made them.
    pub(crate) const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The one list of a request with one prompt.
    pub(crate) fn only(&self) -> Option<&[TokenId]> {
        match self.lists.as_slice() {
            [list] => Some(list),
            _ => None,
        }
    }
}

impl Deref for TokenizedPrompts {
    type Target = [Vec<TokenId>];

    fn deref(&self) -> &Self::Target {
        &self.lists
    }
}
