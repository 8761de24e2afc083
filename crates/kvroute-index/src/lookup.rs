//! The walk along a prompt that finds every rank's cached prefix at once.
//!
//! On the device all ranks start at block 0 and the set of those still matching can only shrink, so one
//! table access a block serves all of them, and the walk ends with the last rank. Lower tiers start where each
//! rank's device prefix ended; they are walked rank by rank, and not at all where they hold nothing.

use kvroute_core::{Blocks, RankSlot, SequenceHash, Tier};

use crate::CachedPrefix;
use crate::holders::Holders;
use crate::rank::TierHolders;
use crate::slot_set::{SlotBits, SlotSet};

/// Replaces `out` by one prefix for each of `slots`; those that are not in `comparable` get nothing.
pub(crate) fn cached_prefixes(
    holders: &TierHolders,
    hashes: &[SequenceHash],
    slots: &[RankSlot],
    comparable: &SlotBits,
    out: &mut Vec<CachedPrefix>,
) {
    let device_ends = DeviceWalk::new(comparable).run(&holders[Tier::Device.index()], hashes);
    out.clear();
    out.extend(slots.iter().map(|slot| {
        if !comparable.contains(*slot) {
            return CachedPrefix::default();
        }
        let device_end = device_ends[slot.index()] as usize;
        let host_end = continue_on(&holders[Tier::Host.index()], hashes, *slot, device_end);
        let disk_end = continue_on(&holders[Tier::Disk.index()], hashes, *slot, host_end);
        CachedPrefix {
            device: Blocks::from(device_end),
            host: Blocks::from(host_end - device_end),
            disk: Blocks::from(disk_end - host_end),
        }
    }));
}

/// The device's part of the walk.
struct DeviceWalk {
    /// Ranks that hold every block so far.
    matching: SlotBits,
    /// Where the other ranks' match ended, by slot.
    ends: Vec<u32>,
}

// === impl DeviceWalk ===

impl DeviceWalk {
    fn new(slots: &SlotBits) -> Self {
        let mut length = 0;
        slots.for_each(|slot| length = length.max(slot.index() + 1));
        Self { matching: slots.clone(), ends: vec![0; length] }
    }

    fn run(mut self, holders: &Holders, hashes: &[SequenceHash]) -> Vec<u32> {
        let mut block = 0;
        for sequence in hashes {
            let mut ended = |slot: RankSlot| self.ends[slot.index()] = block;
            match holders.get(*sequence) {
                None => break,
                Some(SlotSet::One(only)) => self.matching.retain_only(*only, &mut ended),
                Some(SlotSet::Many(bits)) => self.matching.retain_common(bits, &mut ended),
            }
            if self.matching.is_empty() {
                break;
            }
            block += 1;
        }
        self.matching.for_each(|slot| self.ends[slot.index()] = block);
        self.ends
    }
}

/// The block behind the last one that this tier adds to a prefix that ended at `start`.
fn continue_on(holders: &Holders, hashes: &[SequenceHash], slot: RankSlot, start: usize) -> usize {
    if holders.is_empty() {
        return start;
    }
    let holds = |sequence: &&SequenceHash| holders.get(**sequence).is_some_and(|set| set.contains(slot));
    start + hashes[start..].iter().take_while(holds).count()
}
