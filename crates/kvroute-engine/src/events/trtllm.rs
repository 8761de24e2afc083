//! Decoder of the events that TensorRT-LLM keeps for whoever asks: a JSON list of what happened since the last question.
//!
//! As tolerant as the decoder of ZeroMQ payloads, and for the same reason: fields differ from release to release. An
//! event is read from the outside in, so that one that cannot be read still says its number where it can, and costs
//! itself only.
//!
//! Three things are not told and must be inferred. The size of a block is its number of tokens, but the unfinished ends
//! of prompts are stored too and have no identity here; which blocks are whole is decided by `block_sizes`. A model with sliding windows has one cache for each
//! width, and only the widest holds whole prefixes; so narrower windows are left out, with a clear when a wider one
//! shows late. And a removal does not say from where; it is a removal from every tier that the engine is known to use,
//! since a block is in one of them.

mod json;

use kvroute_core::{BlockExtras, BlockSize, DpRank, EngineHash, KvEvent, StoredBlocks, Tier};
use serde_json::value::RawValue;

use super::block_sizes::{BlockSizeClaim, BlockSizes, TwoSizes, Verdict};
use json::{Block, Data, Diff, Envelope, Unreadable};

/// Decoder of one rank's events. Remembers what one event does not tell.
#[derive(Clone, Debug, Default)]
pub(super) struct PolledDecoder {
    sizes: BlockSizes,
    /// The widest attention window so far.
    window: u64,
    has_stored: bool,
    owes_clear: bool,
    /// Tiers below the device that blocks were ever on.
    lower_tiers: [bool; 2],
}

/// One event of the list, read as far as its place in it.
#[derive(Debug)]
pub(super) struct PolledEvent<'a> {
    /// Its number, one more than that of the event before; `None` where it cannot be read.
    pub(super) id: Option<u64>,
    /// The rank whose cache it is about, where the engine tells.
    pub(super) dp_rank: Option<DpRank>,
    window: Option<u64>,
    data: Option<&'a RawValue>,
}

/// What a polled event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PolledChange {
    /// A cache was created: it is empty, and these are the events of a new process.
    Created,
    /// Changes of the cache, in order.
    Events(Vec<KvEvent>),
    /// Nothing that concerns the prefix index.
    Ignored,
    /// Blocks of another size than the others.
    Refused,
    /// Of a known kind, and unreadable.
    Undecodable,
}

/// Cuts an answer into its events; `None` for what is no list.
pub(super) fn list(answer: &[u8]) -> Option<impl ExactSizeIterator<Item = PolledEvent<'_>>> {
    let events: Vec<&RawValue> = serde_json::from_slice(answer).ok()?;
    Some(events.into_iter().map(PolledEvent::of))
}

// === impl PolledEvent ===

impl<'a> PolledEvent<'a> {
    fn of(text: &'a RawValue) -> Self {
        let envelope = serde_json::from_str::<Envelope<'_>>(text.get()).unwrap_or_default();
        Self {
            id: envelope.event_id(),
            dp_rank: envelope.attention_dp_rank().map(DpRank::new),
            window: envelope.window(),
            data: envelope.data,
        }
    }
}

// === impl PolledDecoder ===

impl PolledDecoder {
    /// A decoder of events whose block size is known before.
    pub(super) fn expecting(claim: BlockSizeClaim) -> Self {
        Self { sizes: BlockSizes::new(claim), ..Self::default() }
    }

    /// The sizes of the blocks.
    pub(super) const fn sizes(&self) -> &BlockSizes {
        &self.sizes
    }

    /// As [`BlockSizes::take_loss`].
    pub(super) const fn take_loss(&mut self) -> Option<TwoSizes> {
        self.sizes.take_loss()
    }

    /// Reads what an event says. To be asked in order, for the events of one rank.
    pub(super) fn read(&mut self, event: &PolledEvent<'_>) -> PolledChange {
        self.change(event).unwrap_or(PolledChange::Undecodable)
    }

    /// What follows is from a new process, which may be configured otherwise.
    pub(super) fn restart(&mut self) {
        let mut sizes = std::mem::take(&mut self.sizes);
        sizes.restart();
        *self = Self { sizes, ..Self::default() };
    }

    fn change(&mut self, event: &PolledEvent<'_>) -> Result<PolledChange, Unreadable> {
        let data = Data::read(event.data.ok_or(Unreadable)?)?;
        let kind = data.kind()?;
        if kind == "created" {
            self.create(event.window);
            return Ok(PolledChange::Created);
        }
        if !self.is_widest(event.window) {
            return Ok(PolledChange::Ignored);
        }
        let mut events = Vec::new();
        if kind == "stored" && self.stored(&data, &mut events)? == Verdict::Refuse {
            return Ok(PolledChange::Refused);
        }
        match kind.as_ref() {
            "removed" => self.removed(&data, &mut events)?,
            "updated" => self.updated(&data, &mut events)?,
            _ => {}
        }
        if std::mem::take(&mut self.owes_clear) {
            events.insert(0, KvEvent::Cleared);
        }
        Ok(if events.is_empty() { PolledChange::Ignored } else { PolledChange::Events(events) })
    }

    /// The caches of all windows are created one after the other; the first of them starts anew.
    fn create(&mut self, window: Option<u64>) {
        if self.has_stored {
            self.restart();
        }
        self.window = self.window.max(window.unwrap_or(0));
    }

    /// Whether an event is about the widest window. The first one of a wider window starts over.
    fn is_widest(&mut self, window: Option<u64>) -> bool {
        let window = window.unwrap_or(self.window);
        if window > self.window {
            self.start_over();
            self.window = window;
        }
        window == self.window
    }

    /// What was stored so far was not what it seemed. Its clear goes before the next event that can be read.
    fn start_over(&mut self) {
        self.owes_clear |= std::mem::take(&mut self.has_stored);
    }

    fn stored(&mut self, data: &Data<'_>, events: &mut Vec<KvEvent>) -> Result<Verdict, Unreadable> {
        let blocks: Vec<Block<'_>> = data.blocks()?;
        let Some(size) = size_of(&blocks)? else { return Ok(Verdict::LeaveOut) };
        let block_tokens = size.get() as usize;
        let mut parent = data.parent_hash()?;
        let last = blocks.iter().rfind(|block| block.tokens.len() == block_tokens);
        let last = last.map(Block::hash).transpose()?;
        let verdict = self.sizes.judge_run(size, parent, blocks.len(), last);
        match verdict {
            Verdict::Take => {}
            Verdict::TakeAfterClear => self.start_over(),
            Verdict::LeaveOut | Verdict::Refuse => return Ok(verdict),
        }
        let is_whole = |block: &&Block<'_>| block.tokens.len() == block_tokens && block.is_plain();
        let whole: Vec<_> = blocks.iter().take_while(is_whole).collect();
        for run in whole.chunk_by(|one, next| one.tier() == next.tier()) {
            let stored = run_of(run, size, parent)?;
            parent = stored.hashes.last().copied();
            self.use_tier(stored.tier);
            self.has_stored = true;
            events.push(KvEvent::Stored(stored));
        }
        Ok(verdict)
    }

    fn removed(&self, data: &Data<'_>, events: &mut Vec<KvEvent>) -> Result<(), Unreadable> {
        let hashes = data.block_hashes()?;
        let is_used = |tier: &Tier| match tier {
            Tier::Device => true,
            Tier::Host => self.lower_tiers[0],
            Tier::Disk => self.lower_tiers[1],
        };
        let tiers = Tier::ALL.into_iter().filter(is_used);
        events.extend(tiers.map(|tier| KvEvent::Removed { hashes: hashes.clone(), tier }));
        Ok(())
    }

    fn updated(&mut self, data: &Data<'_>, events: &mut Vec<KvEvent>) -> Result<(), Unreadable> {
        let Some(Diff { old_value, new_value }) = data.cache_level()? else { return Ok(()) };
        let (from, to) = (json::tier(old_value), json::tier(new_value));
        self.use_tier(to);
        if from != to {
            events.push(KvEvent::Moved { hash: data.block_hash()?, from, to });
        }
        Ok(())
    }

    const fn use_tier(&mut self, tier: Tier) {
        match tier {
            Tier::Device => {}
            Tier::Host => self.lower_tiers[0] = true,
            Tier::Disk => self.lower_tiers[1] = true,
        }
    }
}

/// Tokens of each block of a store: of the first one, for each follows the one before, and only the last may be
/// unfinished. `None` for no blocks.
fn size_of(blocks: &[Block<'_>]) -> Result<Option<BlockSize>, Unreadable> {
    let [first, ..] = blocks else { return Ok(None) };
    let size = first.tokens.len();
    let (last, others) = blocks.split_last().ok_or(Unreadable)?;
    if others.iter().any(|block| block.tokens.len() != size) || last.tokens.len() > size {
        return Err(Unreadable);
    }
    let size = u32::try_from(size).map_err(|_| Unreadable)?;
    BlockSize::new(size).map(Some).map_err(|_| Unreadable)
}

/// Blocks of one tier, each the child of the one before.
fn run_of(
    blocks: &[&Block<'_>],
    block_size: BlockSize,
    parent: Option<EngineHash>,
) -> Result<StoredBlocks, Unreadable> {
    let first = blocks.first().ok_or(Unreadable)?;
    Ok(StoredBlocks {
        hashes: blocks.iter().map(|block| block.hash()).collect::<Result<_, _>>()?,
        parent,
        tokens: blocks.iter().flat_map(|block| block.tokens.iter().map(|token| token.id)).collect(),
        block_size,
        tier: first.tier(),
        salt: first.salt(),
        adapter: first.adapter(),
        extras: BlockExtras::default(),
    })
}

#[cfg(test)]
mod tests;
