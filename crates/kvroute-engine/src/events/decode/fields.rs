//! The fields of one event, whether they came by name (maps) or by position (arrays).

use kvroute_core::{EngineHash, Tier, TokenId};
use rmp::Marker;

use super::extra_keys::{self, WrittenKey};
use super::msgpack::{Cursor, Malformed};

/// What an event can carry, for the kinds that are understood.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub(super) hashes: Option<Vec<EngineHash>>,
    pub(super) parent: Option<EngineHash>,
    pub(super) tokens: Option<Vec<TokenId>>,
    pub(super) block_size: Option<u32>,
    pub(super) lora_id: Option<u64>,
    pub(super) lora_name: Option<String>,
    pub(super) tier: Option<Tier>,
    /// What the blocks depend on beside their tokens, by their position: adapter name, tenant salt, images.
    pub(super) extra_keys: Vec<(usize, WrittenKey)>,
    pub(super) cache_salt: Option<String>,
    pub(super) group: Option<u32>,
    pub(super) group_kind: Option<GroupKind>,
    pub(super) is_remote: bool,
}

/// Whether the blocks of a cache group hold whole prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupKind {
    /// Every layer of the group attends to everything before: a block means its whole prefix.
    Prefix,
    /// Sliding windows, recurrent states, encoder or cross attention.
    Other,
}

/// A field that is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Hashes,
    Parent,
    Tokens,
    BlockSize,
    LoraId,
    Medium,
    LoraName,
    ExtraKeys,
    Group,
    GroupKind,
    SlidingWindow,
    Locality,
    CacheSalt,
}

/// What an integer hash takes on the wire: its type and 64 bits.
const INT_HASH_BYTES: usize = 9;

/// Positions behind the event's name in array form; what is behind them is newer and not needed.
pub(super) const STORED: &[Field] = &[
    Field::Hashes,
    Field::Parent,
    Field::Tokens,
    Field::BlockSize,
    Field::LoraId,
    Field::Medium,
    Field::LoraName,
    Field::ExtraKeys,
    Field::Group,
    Field::GroupKind,
    Field::SlidingWindow,
    Field::Locality,
];
pub(super) const REMOVED: &[Field] = &[Field::Hashes, Field::Medium, Field::Group, Field::Locality];

// === impl Field ===

impl Field {
    pub(super) fn by_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"block_hashes" => Self::Hashes,
            b"parent_block_hash" => Self::Parent,
            b"token_ids" => Self::Tokens,
            b"block_size" => Self::BlockSize,
            b"lora_id" => Self::LoraId,
            b"medium" => Self::Medium,
            b"lora_name" => Self::LoraName,
            b"extra_keys" => Self::ExtraKeys,
            b"group_idx" => Self::Group,
            b"kv_cache_spec_kind" => Self::GroupKind,
            b"locality" => Self::Locality,
            b"cache_salt" => Self::CacheSalt,
            _ => return None,
        })
    }
}

// === impl Fields ===

impl Fields {
    /// Reads the value of one field; a nil is an absent field.
    pub(super) fn read(&mut self, field: Field, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
        if cursor.take_nil()? {
            return Ok(());
        }
        match field {
            Field::Hashes => self.hashes = Some(hashes(cursor)?),
            Field::Parent => self.parent = Some(hash(cursor)?),
            Field::Tokens => self.tokens = Some(tokens(cursor)?),
            Field::BlockSize => self.block_size = Some(cursor.u32()?),
            Field::LoraId => self.lora_id = Some(cursor.int_bits()?),
            Field::LoraName => self.lora_name = Some(text(cursor)?),
            Field::CacheSalt => self.cache_salt = Some(text(cursor)?),
            Field::Medium => self.tier = Some(tier(cursor.str()?)),
            Field::ExtraKeys => self.extra_keys = extra_keys::read(cursor)?,
            Field::Group => self.group = Some(cursor.u32()?),
            Field::GroupKind => self.group_kind = group_kind(cursor.str()?),
            Field::Locality => self.is_remote = !cursor.str()?.eq_ignore_ascii_case(b"local"),
            Field::SlidingWindow => cursor.skip()?,
        }
        Ok(())
    }
}

fn hashes(cursor: &mut Cursor<'_>) -> Result<Vec<EngineHash>, Malformed> {
    let len = cursor.array_len()?;
    let mut hashes = Vec::with_capacity(len.min(cursor.remaining() / INT_HASH_BYTES));
    for _ in 0..len {
        hashes.push(hash(cursor)?);
    }
    Ok(hashes)
}

/// Integers of either sign, or raw digests; a digest shorter than 32 bytes is filled with zeros.
fn hash(cursor: &mut Cursor<'_>) -> Result<EngineHash, Malformed> {
    if !matches!(cursor.peek()?, Marker::Bin8 | Marker::Bin16 | Marker::Bin32) {
        return Ok(EngineHash::Int(cursor.int_bits()?));
    }
    let bytes = cursor.bin()?;
    let mut digest = [0; 32];
    match digest.get_mut(..bytes.len()) {
        Some(start) if !bytes.is_empty() => start.copy_from_slice(bytes),
        _ => return Err(Malformed),
    }
    Ok(EngineHash::Digest(digest))
}

/// Token ids, or pairs of an id and its successor (speculative decoding): a pair stands for its first id.
fn tokens(cursor: &mut Cursor<'_>) -> Result<Vec<TokenId>, Malformed> {
    let len = cursor.array_len()?;
    let mut tokens = Vec::with_capacity(len);
    for _ in 0..len {
        if let Marker::FixArray(pair) = cursor.peek()? {
            if pair != 2 {
                return Err(Malformed);
            }
            cursor.array_len()?;
            tokens.push(cursor.u32()?);
            cursor.u32()?;
        } else {
            tokens.push(cursor.u32()?);
        }
    }
    Ok(tokens)
}

pub(super) fn text(cursor: &mut Cursor<'_>) -> Result<String, Malformed> {
    String::from_utf8(cursor.str()?.to_vec()).map_err(|_| Malformed)
}

fn tier(medium: &[u8]) -> Tier {
    match medium.to_ascii_uppercase().as_slice() {
        b"GPU" => Tier::Device,
        b"CPU" | b"CPU_PINNED" => Tier::Host,
        _ => Tier::Disk,
    }
}

/// `None` for a kind that the engine itself does not know.
fn group_kind(kind: &[u8]) -> Option<GroupKind> {
    match kind {
        b"full_attention" | b"mla_attention" | b"sink_full_attention" => Some(GroupKind::Prefix),
        b"unknown" => None,
        _ => Some(GroupKind::Other),
    }
}
