//! The model part of a `tokenizer.json`, read without a tree of it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::pairs::{BytePairs, Merges};
use super::vocabulary::{Draft, Vocabulary};
use kvroute_core::TokenId;

/// The file's fields; one that is not among them may change the model.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    dropout: Option<f32>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(rename = "fuse_unk")]
    _means_nothing_without_unk_token: Option<bool>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
    #[serde(borrow)]
    vocab: &'a RawValue,
    #[serde(borrow)]
    merges: &'a RawValue,
}

/// Text of the file, copied only where it has escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The file's list of merges, over a vocabulary.
struct MergeList<'v>(&'v Vocabulary);

/// One merge, as it is written.
enum Pair<'a> {
    /// In one text, with a blank between them.
    Line(Cow<'a, str>),
    Two(Text<'a>, Text<'a>),
}

/// Reads byte pairs; `None` where the library is to read the model, or to say what is wrong with it.
pub(super) fn byte_pairs(text: &str) -> Option<BytePairs> {
    let written: Written<'_> = serde_json::from_str(text).ok()?;
    let is_set = |option: &Option<String>| option.as_ref().is_some_and(|value| !value.is_empty());
    let has_options = written.dropout.is_some_and(|dropout| dropout > 0.0)
        || written.unk_token.is_some()
        || is_set(&written.continuing_subword_prefix)
        || is_set(&written.end_of_word_suffix)
        || written.byte_fallback == Some(true);
    if written.kind != "BPE" || has_options {
        return None;
    }
    let vocabulary = serde_json::from_str::<Draft>(written.vocab.get()).ok()?.finish()?;
    let mut merges = serde_json::Deserializer::from_str(written.merges.get());
    let merges = de::DeserializeSeed::deserialize(MergeList(&vocabulary), &mut merges).ok()?;
    Some(BytePairs::new(vocabulary, merges, written.ignore_merges == Some(true)))
}

// === impl Draft ===

impl<'de> Deserialize<'de> for Draft {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tokens;

        impl<'de> Visitor<'de> for Tokens {
            type Value = Draft;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("ids by token")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Draft, A::Error> {
                let mut draft = Draft::default();
                while let Some((Text(token), id)) = map.next_entry::<Text<'de>, TokenId>()? {
                    draft.push(&token, id);
                }
                Ok(draft)
            }
        }

        deserializer.deserialize_map(Tokens)
    }
}

// === impl MergeList ===

impl<'de> de::DeserializeSeed<'de> for MergeList<'_> {
    type Value = Merges;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Merges, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for MergeList<'_> {
    type Value = Merges;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of merges")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merges, A::Error> {
        let mut merges = Merges::with_capacity(self.0.len());
        let (mut rank, mut joined) = (0, String::new());
        let mut are_lines = None;
        while let Some(pair) = list.next_element::<Pair<'de>>()? {
            let is_line = matches!(pair, Pair::Line(_));
            if *are_lines.get_or_insert(is_line) != is_line {
                return Err(de::Error::custom("merges are written in two ways"));
            }
            if matches!(&pair, Pair::Line(line) if line.starts_with("#version")) {
                continue;
            }
            let (left, right) = pair.parts().ok_or_else(|| de::Error::custom("a merge has not two parts"))?;
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            let id = |token| self.0.id(token).ok_or_else(|| de::Error::custom("a merge of what is no token"));
            merges.insert(id(left)?, id(right)?, rank, id(&joined)?);
            rank += 1;
        }
        Ok(merges)
    }
}

// === impl Pair ===

impl Pair<'_> {
    fn parts(&self) -> Option<(&str, &str)> {
        match self {
            Self::Line(line) => line.split_once(' ').filter(|(_, right)| !right.contains(' ')),
            Self::Two(Text(left), Text(right)) => Some((left, right)),
        }
    }
}

impl<'de> Deserialize<'de> for Pair<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LineOrTwo;

        impl<'de> Visitor<'de> for LineOrTwo {
            type Value = Pair<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("two tokens")
            }

            fn visit_borrowed_str<E: de::Error>(self, line: &'de str) -> Result<Pair<'de>, E> {
                Ok(Pair::Line(Cow::Borrowed(line)))
            }

            fn visit_str<E: de::Error>(self, line: &str) -> Result<Pair<'de>, E> {
                Ok(Pair::Line(Cow::Owned(line.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut two: A) -> Result<Pair<'de>, A::Error> {
                let mut next = || {
                    two.next_element()?.ok_or_else(|| de::Error::custom("a merge has less than two parts"))
                };
                let (left, right) = (next()?, next()?);
                match two.next_element::<de::IgnoredAny>()? {
                    None => Ok(Pair::Two(left, right)),
                    Some(_) => Err(de::Error::custom("a merge has more than two parts")),
                }
            }
        }

        deserializer.deserialize_any(LineOrTwo)
    }
}
