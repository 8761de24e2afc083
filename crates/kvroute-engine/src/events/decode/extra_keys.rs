//! What separates blocks with equal tokens, as vLLM tells it of each block: the adapter's name, the tenant's salt with the
//! first block of all, images with the place where they begin, and whatever a later release adds.
//!
//! Adapter and salt are the prompt's, and reach every further block through the chain. All else is its block's own. A key of
//! an unknown kind becomes part of the block as it is written: the block is known, and no prompt ever asks for it.

use kvroute_core::{BlockExtras, ExtraKey, ItemId};
use rmp::Marker;

use super::fields::text;
use super::msgpack::{Cursor, Malformed};

/// One key of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WrittenKey {
    /// A name without a word of what it names.
    Text(String),
    /// Said to be a salt.
    Salt(String),
    /// Said to be an adapter.
    Adapter(String),
    /// An image or its like, and where it begins, seen from the block's first token.
    Item(String, i64),
    /// Anything else.
    Unknown(ExtraKey),
}

/// What the keys of an event say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Separators {
    /// The tenant's salt, where the event begins with the first block of all.
    pub(super) salt: Option<String>,
    /// Everything else but the adapter.
    pub(super) extras: BlockExtras,
}

/// Reads one entry a block, each nil or a list of keys.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Vec<(usize, WrittenKey)>, Malformed> {
    let mut keys = Vec::new();
    for block in 0..cursor.array_len()? {
        if cursor.take_nil()? {
            continue;
        }
        for _ in 0..cursor.array_len()? {
            keys.push((block, key(cursor)?));
        }
    }
    Ok(keys)
}

fn key(cursor: &mut Cursor<'_>) -> Result<WrittenKey, Malformed> {
    if cursor.is_text() {
        return text(cursor).map(WrittenKey::Text);
    }
    let mut ahead = *cursor;
    let written = cursor.skipped()?;
    Ok(compound(&mut ahead).unwrap_or_else(|_| WrittenKey::Unknown(ExtraKey::unknown(written))))
}

/// `[identity, offset]`, or a list that begins with the kind of the key.
fn compound(cursor: &mut Cursor<'_>) -> Result<WrittenKey, Malformed> {
    let length = cursor.array_len()?;
    let first = text(cursor)?;
    let is_tagged = cursor.is_text();
    match (length, first.as_str()) {
        (2, _) if !is_tagged => Ok(WrittenKey::Item(first, offset(cursor)?)),
        (2, "cache_salt") => text(cursor).map(WrittenKey::Salt),
        (3, "lora") => text(cursor).map(WrittenKey::Adapter),
        (3, "mm") => Ok(WrittenKey::Item(text(cursor)?, offset(cursor)?)),
        _ => Err(Malformed),
    }
}

fn offset(cursor: &mut Cursor<'_>) -> Result<i64, Malformed> {
    let is_float = matches!(cursor.peek()?, Marker::F32 | Marker::F64);
    if is_float { Err(Malformed) } else { cursor.int_bits().map(u64::cast_signed) }
}

// === impl Separators ===

impl Separators {
    /// Of an event of so many blocks; `is_root` where the first of them has none before it.
    pub(super) fn of(
        keys: Vec<(usize, WrittenKey)>,
        is_root: bool,
        blocks: usize,
        adapter: Option<&str>,
    ) -> Self {
        let (mut salts, mut extras) = (Vec::new(), Vec::new());
        for (block, key) in keys.into_iter().filter(|(block, _)| *block < blocks) {
            let is_first = is_root && block == 0;
            match key {
                WrittenKey::Text(name) | WrittenKey::Adapter(name) if Some(name.as_str()) == adapter => {}
                WrittenKey::Text(name) | WrittenKey::Salt(name) if is_first => salts.push(name),
                WrittenKey::Text(name) | WrittenKey::Salt(name) | WrittenKey::Adapter(name) => {
                    extras.push((block, ExtraKey::unknown(name.as_bytes())));
                }
                WrittenKey::Item(name, offset) => {
                    extras.push((block, ExtraKey::Item { offset, id: ItemId::new(bare(&name, adapter)) }));
                }
                WrittenKey::Unknown(key) => extras.push((block, key)),
            }
        }
        // More than one text is nothing that is known today; joined, they match no request, which is the safe side.
        let salt = (!salts.is_empty()).then(|| salts.join("\0"));
        Self { salt, extras: BlockExtras::new(extras) }
    }
}

/// An engine whose adapters change how images are seen puts the adapter's name in front of an image's. The adapter keeps the
/// blocks apart already.
fn bare<'a>(name: &'a str, adapter: Option<&str>) -> &'a str {
    let behind = adapter.and_then(|adapter| name.strip_prefix(adapter)?.strip_prefix(':'));
    behind.unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ExtraKey = ExtraKey::Unknown(1);

    fn text(name: &str) -> WrittenKey {
        WrittenKey::Text(name.to_owned())
    }

    fn item(name: &str, offset: i64) -> ExtraKey {
        ExtraKey::Item { offset, id: ItemId::new(name) }
    }

    fn of(
        keys: &[(usize, WrittenKey)],
        is_root: bool,
        adapter: Option<&str>,
    ) -> (Option<String>, BlockExtras) {
        let Separators { salt, extras } = Separators::of(keys.to_vec(), is_root, 2, adapter);
        (salt, extras)
    }

    #[test]
    fn the_adapter_is_no_key_of_a_block_and_the_salt_is_one_of_the_prompt() {
        let keys = [(0, text("lora")), (0, text("tenant")), (1, text("lora"))];
        assert_eq!(of(&keys, true, Some("lora")), (Some("tenant".to_owned()), BlockExtras::default()));
        let keys = [(0, WrittenKey::Adapter("lora".into())), (0, WrittenKey::Salt("tenant".into()))];
        assert_eq!(of(&keys, true, Some("lora")), (Some("tenant".to_owned()), BlockExtras::default()));
    }

    #[test]
    fn a_text_that_is_neither_adapter_nor_salt_claims_nothing() {
        let unknown = |block, name: &str| BlockExtras::new(vec![(block, ExtraKey::unknown(name.as_bytes()))]);
        assert_eq!(of(&[(1, text("late"))], true, None), (None, unknown(1, "late")));
        assert_eq!(of(&[(0, text("late"))], false, None), (None, unknown(0, "late")), "behind a parent");
        assert_eq!(of(&[(0, WrittenKey::Adapter("x".into()))], true, None), (None, unknown(0, "x")));
    }

    #[test]
    fn items_and_unknown_keys_are_their_blocks_own() {
        let keys = [(0, WrittenKey::Item("cat".into(), 1)), (1, WrittenKey::Unknown(A)), (2, text("behind"))];
        let extras = BlockExtras::new(vec![(0, item("cat", 1)), (1, A)]);
        assert_eq!(of(&keys, true, None), (None, extras));
    }

    #[test]
    fn an_adapters_name_in_front_of_an_items_is_left_out() {
        let keys = [(0, WrittenKey::Item("lora:cat".into(), 0))];
        assert_eq!(of(&keys, true, Some("lora")).1, BlockExtras::new(vec![(0, item("cat", 0))]));
        assert_eq!(of(&keys, true, Some("lo")).1, BlockExtras::new(vec![(0, item("lora:cat", 0))]));
        assert_eq!(of(&keys, true, None).1, BlockExtras::new(vec![(0, item("lora:cat", 0))]));
    }
}
