//! The blocks themselves: who holds them, what they contain, and which one is taken next.

use kvroute_core::PrehashedMap;

use super::free_list::FreeList;
use super::key::BlockKey;

/// Number of a physical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotIndex(u32);

/// A fixed number of blocks.
#[derive(Debug)]
pub(super) struct BlockPool {
    slots: Vec<Slot>,
    free: FreeList,
    /// Blocks by content, the one stored first in front: equal content may be held twice.
    by_key: PrehashedMap<BlockKey, Vec<SlotIndex>>,
    /// Blocks that nobody holds but that have content.
    idle_cached: usize,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    holders: u32,
    key: Option<BlockKey>,
}

// === impl BlockPool ===

impl BlockPool {
    pub(super) fn new(blocks: u32) -> Self {
        Self {
            slots: vec![Slot::default(); blocks as usize],
            free: FreeList::full(blocks),
            by_key: PrehashedMap::default(),
            idle_cached: 0,
        }
    }

    /// A block with this content.
    pub(super) fn find(&self, key: BlockKey) -> Option<SlotIndex> {
        self.by_key.get(&key).and_then(|slots| slots.first()).copied()
    }

    /// Whether the given cached blocks can be held and so many others claimed beside them.
    pub(super) fn has_room(&self, reused: &[SlotIndex], fresh: usize) -> bool {
        let idle = reused.iter().filter(|slot| self.slot(**slot).holders == 0).count();
        idle + fresh <= self.free.len()
    }

    /// Holds a cached block.
    pub(super) fn hold(&mut self, index: SlotIndex) {
        if self.slot(index).holders == 0 {
            self.free.remove(index.0);
            self.idle_cached -= 1;
        }
        self.slot_mut(index).holders += 1;
    }

    /// Takes the next free block, and tells what content was given up for it. `None` when all are held.
    pub(super) fn claim(&mut self) -> Option<(SlotIndex, Option<BlockKey>)> {
        let index = SlotIndex(self.free.pop_front()?);
        let evicted = self.slot_mut(index).key.take();
        if let Some(key) = evicted {
            self.forget(key, index);
            self.idle_cached -= 1;
        }
        self.slot_mut(index).holders = 1;
        Some((index, evicted))
    }

    /// Gives a held block its content.
    pub(super) fn name(&mut self, index: SlotIndex, key: BlockKey) {
        debug_assert!(self.slot(index).key.is_none(), "a block gets its content once");
        self.slot_mut(index).key = Some(key);
        self.by_key.entry(key).or_default().push(index);
    }

    /// Gives up one hold on each block of a sequence. Blocks without content are taken next, cached ones last, and
    /// of those the deepest first.
    pub(super) fn release(&mut self, slots: &[SlotIndex]) {
        for index in slots.iter().rev() {
            let slot = self.slot_mut(*index);
            slot.holders -= 1;
            match (slot.holders, slot.key) {
                (0, Some(_)) => {
                    self.free.push_back(index.0);
                    self.idle_cached += 1;
                }
                (0, None) => self.free.push_front(index.0),
                _ => {}
            }
        }
    }

    /// Forgets all content; refused (false) while a block is held.
    pub(super) fn clear(&mut self) -> bool {
        if self.held() > 0 {
            return false;
        }
        self.slots.iter_mut().for_each(|slot| slot.key = None);
        self.by_key.clear();
        self.idle_cached = 0;
        true
    }

    /// Blocks that somebody holds.
    pub(super) const fn held(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Blocks that hold KV.
    pub(super) const fn used(&self) -> usize {
        self.held() + self.idle_cached
    }

    /// Different contents of blocks.
    pub(super) fn contents(&self) -> usize {
        self.by_key.len()
    }

    fn forget(&mut self, key: BlockKey, index: SlotIndex) {
        let Some(slots) = self.by_key.get_mut(&key) else { return };
        slots.retain(|slot| *slot != index);
        if slots.is_empty() {
            self.by_key.remove(&key);
        }
    }

    fn slot(&self, index: SlotIndex) -> &Slot {
        &self.slots[index.0 as usize]
    }

    fn slot_mut(&mut self, index: SlotIndex) -> &mut Slot {
        &mut self.slots[index.0 as usize]
    }
}
