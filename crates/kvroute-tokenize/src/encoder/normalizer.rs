//! Normalisers that are known to be none, or Unicode's composition (NFC).

use std::borrow::Cow;

use tokenizers::normalizers::NormalizerWrapper;
use unicode_normalization_alignments::UnicodeNormalization;

use crate::model::Tokenizer;

/// What is done to a text before it is taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Normalization {
    /// Nothing.
    None,
    /// Composition.
    Nfc,
}

// === impl Normalization ===

impl Normalization {
    /// What a tokenizer does; `None` where it is something else.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<Self> {
        tokenizer.get_normalizer().map_or(Some(Self::None), Self::of_step)
    }

    fn of_step(step: &NormalizerWrapper) -> Option<Self> {
        match step {
            NormalizerWrapper::NFC(_) => Some(Self::Nfc),
            NormalizerWrapper::Sequence(steps) => {
                let mut found = Self::None;
                for step in steps.as_ref() {
                    // Composing twice changes nothing more.
                    if Self::of_step(step)? == Self::Nfc {
                        found = Self::Nfc;
                    }
                }
                Some(found)
            }
            _ => None,
        }
    }

    /// The normalised text.
    pub(super) fn apply(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Nfc if !text.is_ascii() && !text.chars().all(is_left_alone) => {
                Cow::Owned(text.nfc().map(|(character, _)| character).collect())
            }
            _ => Cow::Borrowed(text),
        }
    }
}

/// Characters that composition leaves alone among each other: all before the first combining mark, and scripts without
/// their marks, forms of compatibility and jamo.
pub(super) const fn is_left_alone(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{2ff}'
            | '\u{400}'..='\u{482}'
            | '\u{48a}'..='\u{52f}'
            | '\u{2002}'..='\u{2027}'
            | '\u{2030}'..='\u{205e}'
            | '\u{3000}'..='\u{3029}'
            | '\u{3030}'..='\u{3098}'
            | '\u{309b}'..='\u{30ff}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7a3}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{1f300}'..='\u{1faff}'
    )
}
