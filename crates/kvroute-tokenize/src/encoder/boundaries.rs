//! Where the library cuts text before it does anything else: at special and other added tokens.
//!
//! It looks for tokens in the raw text first, then, in what is left between them, normalised, for tokens that are to be
//! found there. Each part between two of them is then normalised and taken apart on its own. So a part has the same ids
//! wherever it stands, unless a token takes in white space beside it or depends on what stands beside it, or a step behind
//! asks whether a part is the first one: then nothing is cut here.

use aho_corasick::{AhoCorasick, MatchKind};
use kvroute_core::TokenId;
use tokenizers::AddedToken;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;

use super::normalizer::Normalization;
use crate::model::Tokenizer;

/// The tokens at which text is cut.
#[derive(Debug)]
pub(super) struct Boundaries {
    raw: Needles,
    /// Those that are looked for in normalised text, where normalising changes nothing.
    normalised: Option<Needles>,
}

/// Texts to be found, and what each of them is.
#[derive(Debug)]
struct Needles {
    automaton: AhoCorasick,
    ids: Vec<TokenId>,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// An added token.
    Token(TokenId),
    /// Text between two of them, not empty.
    Text(&'a str),
}

// === impl Boundaries ===

impl Boundaries {
    /// The tokens of a tokenizer, unless something looks across them.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<Self> {
        if tokenizer.get_pre_tokenizer().is_some_and(looks_for_the_first_part) {
            return None;
        }
        let mut added: Vec<(TokenId, AddedToken)> =
            tokenizer.get_added_tokens_decoder().into_iter().collect();
        added.sort_by_key(|(id, _)| *id);
        if added.iter().any(|(_, token)| token.lstrip || token.rstrip || token.single_word) {
            return None;
        }
        let (normalised, raw): (Vec<_>, Vec<_>) = added.into_iter().partition(|(_, token)| token.normalized);
        let changes_nothing = Normalization::of(tokenizer) == Some(Normalization::None);
        let normalised = if changes_nothing { Some(Needles::new(normalised)?) } else { None };
        Some(Self { raw: Needles::new(raw)?, normalised })
    }

    /// The parts of a text, in order.
    pub(super) fn cut<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Piece<'a>> {
        self.raw.cut(text).flat_map(|piece| match (piece, &self.normalised) {
            (Piece::Text(part), Some(needles)) => Parts::Cut(needles.cut(part)),
            (other, _) => Parts::Whole(std::iter::once(other)),
        })
    }
}

/// Whether a step treats the part at the start of the text in another way than the others.
fn looks_for_the_first_part(step: &PreTokenizerWrapper) -> bool {
    match step {
        PreTokenizerWrapper::Metaspace(metaspace) => metaspace.get_prepend_scheme() == PrependScheme::First,
        PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().any(looks_for_the_first_part),
        _ => false,
    }
}

/// A part that was cut again, or was not.
enum Parts<A, B> {
    Cut(A),
    Whole(B),
}

impl<'a, A: Iterator<Item = Piece<'a>>, B: Iterator<Item = Piece<'a>>> Iterator for Parts<A, B> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        match self {
            Self::Cut(pieces) => pieces.next(),
            Self::Whole(piece) => piece.next(),
        }
    }
}

// === impl Needles ===

impl Needles {
    fn new(tokens: Vec<(TokenId, AddedToken)>) -> Option<Self> {
        let tokens: Vec<_> = tokens.into_iter().filter(|(_, token)| !token.content.is_empty()).collect();
        let contents = tokens.iter().map(|(_, token)| token.content.as_str());
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(contents).ok()?;
        Some(Self { automaton, ids: tokens.iter().map(|(id, _)| *id).collect() })
    }

    fn cut<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Piece<'a>> {
        let mut found = self.automaton.find_iter(text);
        let mut at = 0;
        let mut waiting = None;
        std::iter::from_fn(move || {
            if let Some(token) = waiting.take() {
                return Some(token);
            }
            let Some(token) = found.next() else {
                let rest = &text[at..];
                at = text.len();
                return (!rest.is_empty()).then_some(Piece::Text(rest));
            };
            let before = &text[at..token.start()];
            at = token.end();
            let piece = Piece::Token(self.ids[token.pattern().as_usize()]);
            if before.is_empty() {
                return Some(piece);
            }
            waiting = Some(piece);
            Some(Piece::Text(before))
        })
    }
}
