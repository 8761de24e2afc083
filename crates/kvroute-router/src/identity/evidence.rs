//! One comparison of the router's tokens with an engine's, and what its difference points to.

use std::fmt;

use kvroute_core::{TokenId, Tokens};
use kvroute_metrics::IdentityCheck;
use kvroute_openai::Prompt;
use xxhash_rust::xxh3::Xxh3;

/// How a prompt becomes tokens. Each way can fail by itself: a wrong template leaves plain text right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PromptKind {
    /// The tokenizer alone.
    Text,
    /// The chat template, too.
    Chat,
    /// A chat with tools or their calls, which engines rewrite before the template sees them.
    Tools,
}

/// What a comparison showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The same ids.
    EqualIds,
    /// As many tokens.
    EqualLength,
    /// Other ids.
    OtherIds(Difference),
    /// Another number of tokens.
    OtherLength {
        /// The router's.
        router: Tokens,
        /// The engine's.
        engine: Tokens,
    },
}

/// Where two lists of ids part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// First position at which they differ, from 0.
    pub(crate) position: usize,
    /// The router's id there; `None` where its list ends.
    pub(crate) router: Option<TokenId>,
    /// The engine's.
    pub(crate) engine: Option<TokenId>,
    /// Length of both lists.
    pub(crate) lengths: (Tokens, Tokens),
    /// One list is the other behind one further token.
    pub(crate) is_shifted: bool,
}

/// A comparison of one prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// How the prompt became tokens.
    pub(crate) kind: PromptKind,
    /// Tells prompts apart: their [`fingerprint`].
    pub(crate) prompt: u64,
    /// What was seen.
    pub(crate) finding: Finding,
}

/// What a difference most likely comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// A token in front, as a tokenizer adds it by itself.
    FirstToken,
    /// The chat template.
    Template,
    /// The tokenizer.
    Tokenizer,
    /// It cannot be told from what was seen.
    Either,
}

/// What the messages of a conversation with tools hold: `tool_calls`, or the `tool_call_id` of a result.
const TOOL_CALL: &[u8] = b"\"tool_call";

/// Ids that are hashed together.
const IDS_AT_ONCE: usize = 256;

// === impl PromptKind ===

impl PromptKind {
    /// Every kind, in the order in which they are told.
    pub(crate) const ALL: [Self; 3] = [Self::Text, Self::Chat, Self::Tools];

    /// Of a prompt; `None` where nothing is tokenized here.
    pub(crate) fn of(prompt: &Prompt) -> Option<Self> {
        match prompt {
            Prompt::Texts { .. } => Some(Self::Text),
            Prompt::Chat(chat) => {
                let has_tools = chat.tools.is_some()
                    || memchr::memmem::find(chat.messages.as_str().as_bytes(), TOOL_CALL).is_some();
                Some(if has_tools { Self::Tools } else { Self::Chat })
            }
            Prompt::TokenLists(_) | Prompt::Foreign(_) => None,
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Chat => "chat",
            Self::Tools => "chat with tools",
        }
    }
}

// === impl Finding ===

impl Finding {
    /// Compares ids with an engine's.
    pub(crate) fn of_ids(router: &[TokenId], engine: &[TokenId]) -> Self {
        if router == engine {
            return Self::EqualIds;
        }
        let position = router.iter().zip(engine).take_while(|(ours, theirs)| ours == theirs).count();
        let is_shifted = router.get(1..) == Some(engine) || engine.get(1..) == Some(router);
        Self::OtherIds(Difference {
            position,
            router: router.get(position).copied(),
            engine: engine.get(position).copied(),
            lengths: (Tokens::from(router.len()), Tokens::from(engine.len())),
            is_shifted: is_shifted && position == 0,
        })
    }

    /// Compares a length with an engine's.
    pub(crate) fn of_lengths(router: Tokens, engine: Tokens) -> Self {
        if router == engine { Self::EqualLength } else { Self::OtherLength { router, engine } }
    }

    pub(crate) const fn is_equal(self) -> bool {
        matches!(self, Self::EqualIds | Self::EqualLength)
    }

    /// Whether ids were compared, and not only their number.
    pub(crate) const fn is_of_ids(self) -> bool {
        matches!(self, Self::EqualIds | Self::OtherIds(_))
    }

    /// As it is counted.
    pub(crate) const fn check(self) -> IdentityCheck {
        match self {
            Self::EqualIds | Self::EqualLength => IdentityCheck::Equal,
            Self::OtherIds(_) => IdentityCheck::Ids,
            Self::OtherLength { .. } => IdentityCheck::Length,
        }
    }
}

// === impl Hint ===

impl Hint {
    /// `text_is_right`: plain text was seen to become the engine's tokens.
    pub(crate) fn of(kind: PromptKind, finding: Finding, text_is_right: bool) -> Self {
        match (kind, finding) {
            (_, Finding::OtherIds(difference)) if difference.is_shifted => Self::FirstToken,
            (_, Finding::OtherLength { router, engine }) if router.get().abs_diff(engine.get()) == 1 => {
                Self::FirstToken
            }
            (PromptKind::Text, _) => Self::Tokenizer,
            _ if text_is_right => Self::Template,
            _ => Self::Either,
        }
    }

    /// In words, with the remedy.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::FirstToken => {
                "one side adds a token in front: compare add_bos_token in tokenizer_config.json with the engine's"
            }
            Self::Template => {
                "the chat template differs: compare chat_template in pool.tokenizer with the engine's --chat-template"
            }
            Self::Tokenizer => "the tokenizer differs: set pool.tokenizer to the worker's own model folder",
            Self::Either => {
                "tokenizer or chat template differ: set pool.tokenizer to the worker's own model folder"
            }
        }
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Tells one prompt from another.
pub(crate) fn fingerprint(ids: &[TokenId]) -> u64 {
    let mut hasher = Xxh3::new();
    let mut bytes = [0; 4 * IDS_AT_ONCE];
    for some in ids.chunks(IDS_AT_ONCE) {
        for (place, id) in bytes.chunks_exact_mut(4).zip(some) {
            place.copy_from_slice(&id.to_le_bytes());
        }
        hasher.update(&bytes[..4 * some.len()]);
    }
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kvroute_openai::{ClientRequest, Endpoint};

    use super::*;

    const fn tokens(count: u64) -> Tokens {
        Tokens::new(count)
    }

    #[test]
    fn the_first_difference_is_told_with_both_ids() {
        let Finding::OtherIds(difference) = Finding::of_ids(&[1, 2, 3, 4], &[1, 2, 9]) else { panic!() };
        assert_eq!((difference.position, difference.router, difference.engine), (2, Some(3), Some(9)));
        assert_eq!(difference.lengths, (tokens(4), tokens(3)));
        let Finding::OtherIds(shorter) = Finding::of_ids(&[1, 2], &[1, 2, 9]) else { panic!() };
        assert_eq!((shorter.position, shorter.router, shorter.engine), (2, None, Some(9)));
        assert_eq!(Finding::of_ids(&[1, 2], &[1, 2]), Finding::EqualIds);
    }

    #[test]
    fn a_token_in_front_on_either_side_is_recognised() {
        for (router, engine) in [(&[5, 6, 7][..], &[1, 5, 6, 7][..]), (&[1, 5, 6, 7], &[5, 6, 7])] {
            let finding = Finding::of_ids(router, engine);
            assert_eq!(Hint::of(PromptKind::Text, finding, true), Hint::FirstToken);
        }
        let by_length = Finding::of_lengths(tokens(7), tokens(8));
        assert_eq!(Hint::of(PromptKind::Chat, by_length, true), Hint::FirstToken);
        let other = Finding::of_ids(&[5, 6, 7], &[8, 9, 9]);
        assert_eq!(Hint::of(PromptKind::Text, other, false), Hint::Tokenizer, "other from the start");
        let inside = Finding::of_ids(&[5, 6, 7], &[5, 1, 6, 7]);
        assert_eq!(Hint::of(PromptKind::Chat, inside, true), Hint::Template);
    }

    #[test]
    fn a_template_is_named_only_where_plain_text_is_right() {
        let finding = Finding::of_ids(&[5, 6, 7, 8], &[5, 9]);
        assert_eq!(Hint::of(PromptKind::Text, finding, false), Hint::Tokenizer);
        assert_eq!(Hint::of(PromptKind::Chat, finding, true), Hint::Template);
        assert_eq!(Hint::of(PromptKind::Tools, finding, false), Hint::Either);
    }

    #[test]
    fn a_chat_with_tools_or_their_calls_is_of_a_kind_of_its_own() {
        let chat = |fields: &str| {
            let body = format!(r#"{{"messages":[{{"role":"user","content":"hi"}}{fields}"#);
            let request = ClientRequest::parse(Endpoint::ChatCompletions, Bytes::from(body)).unwrap();
            PromptKind::of(&request.prompt)
        };
        assert_eq!(chat("]}"), Some(PromptKind::Chat));
        assert_eq!(chat(r#"],"tools":[]}"#), Some(PromptKind::Chat));
        assert_eq!(chat(r#"],"tools":[{"type":"function"}]}"#), Some(PromptKind::Tools));
        assert_eq!(chat(r#",{"role":"tool","tool_call_id":"1","content":"x"}]}"#), Some(PromptKind::Tools));
        assert_eq!(PromptKind::of(&Prompt::TokenLists(vec![vec![1]])), None);
    }

    #[test]
    fn prompts_that_differ_in_one_id_anywhere_have_fingerprints_of_their_own() {
        let long: Vec<TokenId> = (0..1000).collect();
        for position in [0, 255, 256, 500, 999] {
            let mut other = long.clone();
            other[position] += 1;
            assert_ne!(fingerprint(&long), fingerprint(&other), "{position}");
        }
        assert_ne!(fingerprint(&long), fingerprint(&long[..999]));
        assert_ne!(fingerprint(&[]), fingerprint(&[0]));
        assert_ne!(fingerprint(&[0]), fingerprint(&[0, 0]));
        assert_eq!(fingerprint(&long), fingerprint(&long.clone()));
    }
}
