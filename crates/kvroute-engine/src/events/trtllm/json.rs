//! The JSON of one polled event, read in steps from the outside in.

use std::borrow::Cow;
use std::fmt;

use kvroute_core::{EngineHash, Tier, TokenId};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

/// The text is no event of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// The outermost layer. Every value stays text, so that one of an unexpected type spoils no other.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow, default)]
    event_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    window_size: Option<&'a RawValue>,
    #[serde(borrow, default)]
    attention_dp_rank: Option<&'a RawValue>,
}

/// What an event is about: the fields of all kinds.
#[derive(Debug, Deserialize)]
pub(super) struct Data<'a> {
    #[serde(borrow, rename = "type")]
    kind: &'a RawValue,
    #[serde(borrow, default)]
    parent_hash: Option<&'a RawValue>,
    #[serde(borrow, default)]
    blocks: Option<&'a RawValue>,
    #[serde(borrow, default)]
    block_hashes: Option<&'a RawValue>,
    #[serde(borrow, default)]
    block_hash: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cache_level: Option<&'a RawValue>,
}

/// One block of a store.
#[derive(Debug, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    block_hash: &'a RawValue,
    pub(super) tokens: Vec<Token>,
    #[serde(default)]
    cache_level: Option<u64>,
    #[serde(borrow, default)]
    lora_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cache_salt: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cache_salt_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    mm_keys: Option<&'a RawValue>,
}

/// One token of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) id: TokenId,
    /// Whether it stands for something else than itself: a part of an image, a tuned prompt.
    is_special: bool,
}

/// A value that changed.
#[derive(Debug, Deserialize)]
pub(super) struct Diff {
    pub(super) old_value: u64,
    pub(super) new_value: u64,
}

// === impl Envelope ===

impl Envelope<'_> {
    pub(super) fn event_id(&self) -> Option<u64> {
        number(self.event_id)
    }

    pub(super) fn window(&self) -> Option<u64> {
        number(self.window_size)
    }

    pub(super) fn attention_dp_rank(&self) -> Option<u32> {
        number(self.attention_dp_rank)
    }
}

// === impl Data ===

impl<'a> Data<'a> {
    pub(super) fn read(text: &'a RawValue) -> Result<Self, Unreadable> {
        parse(text)
    }

    pub(super) fn kind(&self) -> Result<Cow<'a, str>, Unreadable> {
        text(self.kind).ok_or(Unreadable)
    }

    pub(super) fn parent_hash(&self) -> Result<Option<EngineHash>, Unreadable> {
        self.parent_hash.map(hash).transpose()
    }

    pub(super) fn blocks(&self) -> Result<Vec<Block<'a>>, Unreadable> {
        parse(self.blocks.ok_or(Unreadable)?)
    }

    pub(super) fn block_hashes(&self) -> Result<Vec<EngineHash>, Unreadable> {
        let hashes: Vec<&RawValue> = parse(self.block_hashes.ok_or(Unreadable)?)?;
        hashes.into_iter().map(hash).collect()
    }

    pub(super) fn block_hash(&self) -> Result<EngineHash, Unreadable> {
        hash(self.block_hash.ok_or(Unreadable)?)
    }

    pub(super) fn cache_level(&self) -> Result<Option<Diff>, Unreadable> {
        self.cache_level.map(parse).transpose()
    }
}

// === impl Block ===

impl Block<'_> {
    pub(super) fn hash(&self) -> Result<EngineHash, Unreadable> {
        hash(self.block_hash)
    }

    /// Whether its tokens say all about its content.
    pub(super) fn is_plain(&self) -> bool {
        let has_images = self.mm_keys.is_some_and(|keys| parse::<[(); 0]>(keys).is_err());
        !has_images && self.tokens.iter().all(|token| !token.is_special)
    }

    pub(super) fn tier(&self) -> Tier {
        tier(self.cache_level.unwrap_or(0))
    }

    /// Where only a number for the salt is told, the made-up text keeps its blocks apart and matches no request.
    pub(super) fn salt(&self) -> Option<String> {
        let named = self.cache_salt.and_then(text).filter(|salt| !salt.is_empty());
        let numbered = || self.cache_salt_id.map(|id| format!("cache salt id {}", id.get()));
        named.map(Cow::into_owned).or_else(numbered)
    }

    /// As [`Block::salt`]: requests know an adapter by its name.
    pub(super) fn adapter(&self) -> Option<String> {
        self.lora_id.map(|id| format!("lora id {}", id.get()))
    }
}

// === impl Token ===

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TokenVisitor)
    }
}

/// An id, or an object with more about it.
struct TokenVisitor;

impl<'de> Visitor<'de> for TokenVisitor {
    type Value = Token;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token id or an object with token_id")
    }

    fn visit_u64<E: serde::de::Error>(self, id: u64) -> Result<Token, E> {
        let id = TokenId::try_from(id).map_err(|_| E::custom("a token id above 32 bits"))?;
        Ok(Token { id, is_special: false })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Token, A::Error> {
        let (mut id, mut extra) = (None, None);
        while let Some(name) = fields.next_key::<Cow<'_, str>>()? {
            match name.as_ref() {
                "token_id" => id = Some(fields.next_value()?),
                "token_extra_id" => extra = fields.next_value::<Option<u64>>()?,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        let id = id.ok_or_else(|| serde::de::Error::missing_field("token_id"))?;
        Ok(Token { id, is_special: extra.is_some_and(|extra| extra != 0) })
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a RawValue) -> Result<T, Unreadable> {
    serde_json::from_str(text.get()).map_err(|_| Unreadable)
}

fn number<'a, T: Deserialize<'a>>(text: Option<&'a RawValue>) -> Option<T> {
    parse(text?).ok()
}

fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    parse(value).ok().map(|Text(text)| text)
}

/// An integer of either sign, or any text. What is no 64-bit number is told apart by a hash of its own.
fn hash(value: &RawValue) -> Result<EngineHash, Unreadable> {
    let written = text(value);
    let name = written.as_deref().unwrap_or_else(|| value.get());
    let is_number = || name.parse::<f64>().is_ok();
    if name.is_empty() || (written.is_none() && !is_number()) {
        return Err(Unreadable);
    }
    let unsigned = name.parse::<u64>().ok();
    let bits = unsigned.or_else(|| name.parse::<i64>().ok().map(i64::cast_unsigned));
    Ok(EngineHash::Int(bits.unwrap_or_else(|| xxh3_64(name.as_bytes()))))
}

/// 0 is the accelerator's memory, 1 the host's.
pub(super) const fn tier(cache_level: u64) -> Tier {
    match cache_level {
        0 => Tier::Device,
        1 => Tier::Host,
        _ => Tier::Disk,
    }
}
