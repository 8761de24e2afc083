//! One decoder for every event shape that engines put on a ZeroMQ socket.
//!
//! vLLM changed from positional arrays to maps, adds fields with each release, and drops those at their default;
//! SGLang follows with fields of its own. Nothing here asks for a version: an event is read field by field, by
//! name or by position, and what is unknown is stepped over. Token ids go straight into their vector, since a
//! prompt of a million tokens is one event.
//!
//! Only whole blocks have an identity here; which ones are is decided by `block_sizes`. What has another size is left out,
//! as are copies that are named by their hash alone.
//!
//! Decoding cannot fail. An event that cannot be read costs itself, a payload that is no batch counts as one
//! such event, and the caller's place in the sequence moves on either way.

mod extra_keys;
mod fields;
mod msgpack;

use std::time::Duration;

use kvroute_core::{BlockSize, DpRank, EventBatch, KvEvent, StoredBlocks, Tier};
use rmp::Marker;

use super::block_sizes::{BlockSizeClaim, BlockSizes, TwoSizes, Verdict};
use extra_keys::Separators;
use fields::{Field, Fields, GroupKind};
use msgpack::{Cursor, Malformed};

/// Decoder of one rank's stream. Remembers what one event does not tell: which cache groups hold prefixes, because
/// removals do not say, and what is known of the size of a block.
#[derive(Clone, Debug, Default)]
pub struct EventDecoder {
    /// By group index; a handful at most.
    groups: Vec<(u32, GroupKind)>,
    sizes: BlockSizes,
    has_announced_clear: bool,
}

/// Groups remembered: far more than any model has, so that a broken stream cannot grow the list.
const MAX_GROUPS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventKind {
    Stored,
    Removed,
    Cleared,
    Unknown,
}

// === impl EventDecoder ===

impl EventDecoder {
    /// A decoder of a stream whose block size is known before.
    pub fn expecting(claim: BlockSizeClaim) -> Self {
        Self { sizes: BlockSizes::new(claim), ..Self::default() }
    }

    /// What follows is from a new process, which may be configured otherwise.
    pub(super) fn restart(&mut self) {
        let mut sizes = std::mem::take(&mut self.sizes);
        sizes.restart();
        *self = Self { sizes, ..Self::default() };
    }

    /// The sizes of the stream's blocks.
    pub(super) const fn sizes(&self) -> &BlockSizes {
        &self.sizes
    }

    /// As [`BlockSizes::take_loss`].
    pub(super) const fn take_loss(&mut self) -> Option<TwoSizes> {
        self.sizes.take_loss()
    }

    /// Whether removals can only be understood by what earlier stores said: there are cache groups beside the one of
    /// plain prefixes.
    pub(super) fn knows_groups(&self) -> bool {
        self.groups.iter().any(|learned| *learned != (0, GroupKind::Prefix))
    }

    /// Whether the engine itself announced a clear in the last payload: then nothing from before can be missing.
    pub(super) const fn has_announced_clear(&self) -> bool {
        self.has_announced_clear
    }

    /// Reads one payload, the third frame of an event message: `[timestamp, [event, ...], rank]`.
    pub fn decode(&mut self, payload: &[u8]) -> EventBatch {
        let mut batch = EventBatch::default();
        self.has_announced_clear = false;
        if self.read_batch(&mut Cursor::new(payload), &mut batch).is_err() {
            batch.undecodable += 1;
        }
        batch
    }

    /// Fails where the rest of the payload cannot even be stepped over; what was read before stays in the batch.
    fn read_batch(&mut self, cursor: &mut Cursor<'_>, batch: &mut EventBatch) -> Result<(), Malformed> {
        let items = cursor.array_len()?;
        if items < 2 {
            return Err(Malformed);
        }
        let mut timestamp = *cursor;
        cursor.skip()?;
        batch.published = timestamp.seconds().ok().and_then(|time| Duration::try_from_secs_f64(time).ok());
        for _ in 0..cursor.array_len()? {
            let mut behind = *cursor;
            match self.read_event(&mut behind) {
                Ok(Some(event)) => self.take(event, batch),
                Ok(None) => batch.ignored += 1,
                Err(Malformed) => {
                    behind = *cursor;
                    behind.skip()?;
                    batch.undecodable += 1;
                }
            }
            *cursor = behind;
        }
        if items > 2 && !cursor.take_nil()? {
            batch.dp_rank = Some(DpRank::new(cursor.u32()?));
        }
        Ok(())
    }

    /// Appends an event. A clear behind a clear says nothing, and engines that reset in a loop send thousands.
    fn take(&mut self, event: KvEvent, batch: &mut EventBatch) {
        match &event {
            KvEvent::Stored(stored) => match self.sizes.judge(stored) {
                Verdict::Take => batch.events.push(event),
                Verdict::TakeAfterClear => batch.events.extend([KvEvent::Cleared, event]),
                Verdict::LeaveOut => batch.ignored += 1,
                Verdict::Refuse => batch.rejected += 1,
            },
            KvEvent::Cleared => {
                self.sizes.cleared();
                match batch.events.last() {
                    Some(KvEvent::Cleared) => batch.ignored += 1,
                    _ => batch.events.push(event),
                }
            }
            _ => batch.events.push(event),
        }
    }

    /// Reads one event to its end; `None` for one that does not concern the prefix index.
    fn read_event(&mut self, cursor: &mut Cursor<'_>) -> Result<Option<KvEvent>, Malformed> {
        let (kind, fields) = match cursor.peek()? {
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => read_map(cursor)?,
            _ => read_array(cursor)?,
        };
        match kind {
            EventKind::Unknown => Ok(None),
            EventKind::Cleared => {
                self.has_announced_clear = true;
                Ok(Some(KvEvent::Cleared))
            }
            EventKind::Stored => self.stored(fields),
            EventKind::Removed => self.removed(fields),
        }
    }

    fn stored(&mut self, fields: Fields) -> Result<Option<KvEvent>, Malformed> {
        self.learn_group(&fields);
        if fields.is_remote || !self.holds_prefixes(&fields) {
            return Ok(None);
        }
        let mut hashes = fields.hashes.ok_or(Malformed)?;
        let mut tokens = fields.tokens.ok_or(Malformed)?;
        if tokens.is_empty() {
            return Ok(None);
        }
        let block_size = BlockSize::new(fields.block_size.ok_or(Malformed)?).map_err(|_| Malformed)?;
        let tokens_per_block = block_size.get() as usize;
        if tokens.len() > hashes.len() * tokens_per_block {
            return Err(Malformed);
        }
        // The last block of a radix node may be short: it is not complete, so it has no identity.
        hashes.truncate(tokens.len() / tokens_per_block);
        tokens.truncate(hashes.len() * tokens_per_block);
        if hashes.is_empty() {
            return Ok(None);
        }
        let adapter = adapter(fields.lora_name, fields.lora_id);
        let tier = fields.tier.unwrap_or(Tier::Device);
        let parent = fields.parent;
        let keys = Separators::of(fields.extra_keys, parent.is_none(), hashes.len(), adapter.as_deref());
        let salt = fields.cache_salt.or(keys.salt);
        Ok(Some(KvEvent::Stored(StoredBlocks {
            hashes,
            parent,
            tokens,
            block_size,
            tier,
            salt: salt.filter(|salt| !salt.is_empty()),
            adapter,
            extras: keys.extras,
        })))
    }

    fn removed(&self, fields: Fields) -> Result<Option<KvEvent>, Malformed> {
        if fields.is_remote || !self.holds_prefixes(&fields) {
            return Ok(None);
        }
        let hashes = fields.hashes.ok_or(Malformed)?;
        Ok(Some(KvEvent::Removed { hashes, tier: fields.tier.unwrap_or(Tier::Device) }))
    }

    fn learn_group(&mut self, fields: &Fields) {
        let (Some(group), Some(kind)) = (fields.group, fields.group_kind) else { return };
        if let Some(known) = self.groups.iter_mut().find(|(known, _)| *known == group) {
            known.1 = kind;
        } else if self.groups.len() < MAX_GROUPS {
            self.groups.push((group, kind));
        }
    }

    /// A group of unknown kind counts as one of prefixes only when it is the first: older engines have no other.
    fn holds_prefixes(&self, fields: &Fields) -> bool {
        let Some(group) = fields.group else { return fields.group_kind != Some(GroupKind::Other) };
        let learned = self.groups.iter().find(|(known, _)| *known == group).map(|(_, kind)| *kind);
        match fields.group_kind.or(learned) {
            Some(kind) => kind == GroupKind::Prefix,
            None => group == 0,
        }
    }
}

// === impl EventKind ===

impl EventKind {
    fn by_name(name: &[u8]) -> Self {
        match name {
            b"BlockStored" => Self::Stored,
            b"BlockRemoved" => Self::Removed,
            b"AllBlocksCleared" => Self::Cleared,
            _ => Self::Unknown,
        }
    }
}

/// `{"type": name, field: value, ...}`, in any order.
fn read_map(cursor: &mut Cursor<'_>) -> Result<(EventKind, Fields), Malformed> {
    let mut fields = Fields::default();
    let kind = map_kind(*cursor)?;
    if !matches!(kind, EventKind::Stored | EventKind::Removed) {
        cursor.skip()?;
        return Ok((kind, fields));
    }
    for _ in 0..cursor.map_len()? {
        match Field::by_name(cursor.str()?) {
            Some(field) => fields.read(field, cursor)?,
            None => cursor.skip()?,
        }
    }
    Ok((kind, fields))
}

/// The name comes first from every engine seen; looking for it keeps the order free.
fn map_kind(mut cursor: Cursor<'_>) -> Result<EventKind, Malformed> {
    for _ in 0..cursor.map_len()? {
        if cursor.str()? == b"type" {
            return Ok(EventKind::by_name(cursor.str()?));
        }
        cursor.skip()?;
    }
    Err(Malformed)
}

/// `[name, value, ...]`, trailing values left out.
fn read_array(cursor: &mut Cursor<'_>) -> Result<(EventKind, Fields), Malformed> {
    let items = cursor.array_len()?.checked_sub(1).ok_or(Malformed)?;
    let kind = EventKind::by_name(cursor.str()?);
    let mut fields = Fields::default();
    let positions = match kind {
        EventKind::Stored => fields::STORED,
        EventKind::Removed => fields::REMOVED,
        EventKind::Cleared | EventKind::Unknown => &[],
    };
    for position in 0..items {
        match positions.get(position) {
            Some(field) => fields.read(*field, cursor)?,
            None => cursor.skip()?,
        }
    }
    Ok((kind, fields))
}

/// Requests know an adapter by its name. An engine that tells only a number still keeps its blocks apart: the
/// made-up name matches no request.
fn adapter(name: Option<String>, id: Option<u64>) -> Option<String> {
    match name.filter(|name| !name.is_empty()) {
        Some(name) => Some(name),
        None => id.map(|id| format!("lora id {id}")),
    }
}

#[cfg(test)]
mod tests;
