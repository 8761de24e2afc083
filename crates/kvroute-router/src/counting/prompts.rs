//! Prompts as token ids, and who made them.

use std::ops::Deref;
use std::sync::Arc;

use kvroute_core::{PromptItem, TokenId, WorkerId};

/// Token ids, one list a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenizedPrompts {
    lists: Arc<Vec<Vec<TokenId>>>,
    /// Images and their like, a list a prompt; none for most prompts.
    items: Option<Arc<[Vec<PromptItem>]>>,
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
        Self { lists: lists.into(), items: None, origin }
    }

    /// The same with images and their like: a list a prompt.
    pub(crate) fn with_items(self, items: Arc<[Vec<PromptItem>]>) -> Self {
        Self { items: Some(items), ..self }
    }

    /// What the placeholders in the prompts stand for: a list a prompt, or none at all.
    pub(crate) fn items(&self) -> &[Vec<PromptItem>] {
        self.items.as_deref().unwrap_or_default()
    }

    /// Those of one prompt.
    pub(crate) fn items_of(&self, prompt: usize) -> &[PromptItem] {
        self.items().get(prompt).map_or(&[], Vec::as_slice)
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
