//! The ranks that hold one block.
//!
//! Most blocks live on one rank, so a set of one costs no allocation. Shared blocks (system prompts) may live
//! on all of a thousand ranks: a bit set answers for 64 of them at once.

use kvroute_core::RankSlot;

/// A set of ranks that is never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotSet {
    /// Exactly one rank.
    One(RankSlot),
    /// Two or more ranks.
    Many(Box<SlotBits>),
}

/// A set of ranks, one bit a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotBits {
    words: Vec<u64>,
}

// === impl SlotSet ===

impl SlotSet {
    /// Adds a rank; false if it was there.
    pub(crate) fn insert(&mut self, slot: RankSlot) -> bool {
        match self {
            Self::One(only) if *only == slot => false,
            Self::One(only) => {
                let mut bits = SlotBits::default();
                bits.insert(*only);
                bits.insert(slot);
                *self = Self::Many(Box::new(bits));
                true
            }
            Self::Many(bits) => bits.insert(slot),
        }
    }

    /// Takes a rank out; true if the set would be empty now, so that its owner has to drop it.
    pub(crate) fn remove(&mut self, slot: RankSlot) -> bool {
        match self {
            Self::One(only) => *only == slot,
            Self::Many(bits) => {
                bits.remove(slot);
                if let Some(last) = bits.only() {
                    *self = Self::One(last);
                }
                false
            }
        }
    }

    /// True if the rank is in the set.
    pub(crate) fn contains(&self, slot: RankSlot) -> bool {
        match self {
            Self::One(only) => *only == slot,
            Self::Many(bits) => bits.contains(slot),
        }
    }
}

// === impl SlotBits ===

impl SlotBits {
    /// Adds a rank; false if it was there.
    pub(crate) fn insert(&mut self, slot: RankSlot) -> bool {
        let (word, bit) = position(slot);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// True if the rank is in the set.
    pub(crate) fn contains(&self, slot: RankSlot) -> bool {
        let (word, bit) = position(slot);
        self.word(word) & bit != 0
    }

    /// True if no rank is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Keeps the ranks that are in `other` too, and names each one that left.
    pub(crate) fn retain_common(&mut self, other: &Self, mut left: impl FnMut(RankSlot)) {
        for (index, word) in self.words.iter_mut().enumerate() {
            let gone = *word & !other.word(index);
            for_each_bit(index, gone, &mut left);
            *word &= !gone;
        }
    }

    /// Keeps at most one rank, and names each one that left.
    pub(crate) fn retain_only(&mut self, slot: RankSlot, mut left: impl FnMut(RankSlot)) {
        let (kept_word, kept_bit) = position(slot);
        for (index, word) in self.words.iter_mut().enumerate() {
            let kept = if index == kept_word { *word & kept_bit } else { 0 };
            for_each_bit(index, *word & !kept, &mut left);
            *word = kept;
        }
    }

    /// Names each rank of the set.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(RankSlot)) {
        for (index, word) in self.words.iter().enumerate() {
            for_each_bit(index, *word, &mut visit);
        }
    }

    fn remove(&mut self, slot: RankSlot) {
        let (word, bit) = position(slot);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    /// The only rank, if there is exactly one.
    fn only(&self) -> Option<RankSlot> {
        let mut used = self.words.iter().enumerate().filter(|(_, word)| **word != 0);
        let (index, word) = used.next()?;
        let is_single = word.is_power_of_two() && used.next().is_none();
        is_single.then(|| slot_at(index, word.trailing_zeros()))
    }
}

fn position(slot: RankSlot) -> (usize, u64) {
    (slot.index() / 64, 1 << (slot.index() % 64))
}

fn slot_at(word: usize, bit: u32) -> RankSlot {
    RankSlot::new(word as u32 * 64 + bit)
}

fn for_each_bit(index: usize, word: u64, visit: &mut impl FnMut(RankSlot)) {
    let mut rest = word;
    while rest != 0 {
        visit(slot_at(index, rest.trailing_zeros()));
        rest &= rest - 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_set(changes in prop::collection::vec((any::<bool>(), 0u32..200), 1..60)) {
            let first = changes[0].1;
            let mut model = BTreeSet::from([first]);
            let mut set = SlotSet::One(RankSlot::new(first));
            for (insert, raw) in changes {
                let slot = RankSlot::new(raw);
                if insert {
                    prop_assert_eq!(set.insert(slot), model.insert(raw));
                } else if set.remove(slot) {
                    prop_assert_eq!(&model, &BTreeSet::from([raw]));
                } else {
                    model.remove(&raw);
                }
                for probe in 0..200 {
                    prop_assert_eq!(set.contains(RankSlot::new(probe)), model.contains(&probe));
                }
                prop_assert_eq!(matches!(set, SlotSet::One(_)), model.len() == 1);
            }
        }

        #[test]
        fn who_leaves_is_named_once(left in slots(), right in slots(), only in 0u32..200) {
            let common: BTreeSet<u32> = left.intersection(&right).copied().collect();
            check(&left, &common, |set, named| set.retain_common(&bits(&right), named))?;
            let single: BTreeSet<u32> = left.intersection(&BTreeSet::from([only])).copied().collect();
            check(&left, &single, |set, named| set.retain_only(RankSlot::new(only), named))?;
        }
    }

    fn slots() -> impl Strategy<Value = BTreeSet<u32>> {
        prop::collection::btree_set(0u32..200, 0..20)
    }

    fn bits(slots: &BTreeSet<u32>) -> SlotBits {
        let mut set = SlotBits::default();
        for slot in slots {
            set.insert(RankSlot::new(*slot));
        }
        set
    }

    fn check(
        before: &BTreeSet<u32>,
        expected: &BTreeSet<u32>,
        retain: impl FnOnce(&mut SlotBits, &mut dyn FnMut(RankSlot)),
    ) -> Result<(), TestCaseError> {
        let mut set = bits(before);
        let mut gone = Vec::new();
        retain(&mut set, &mut |slot: RankSlot| gone.push(slot.get()));
        let mut kept = Vec::new();
        set.for_each(|slot| kept.push(slot.get()));
        prop_assert_eq!(set.is_empty(), expected.is_empty());
        prop_assert_eq!(kept, expected.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(gone, before.difference(expected).copied().collect::<Vec<_>>());
        Ok(())
    }
}
