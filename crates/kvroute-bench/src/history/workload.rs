//! Prompts that were never seen, and those of them that are asked for again.

use kvroute_core::SequenceHash;

use super::contestant::Remember;
use crate::random::{OneIn, Random};

/// Prompts of one length, as hashes.
pub(crate) type Prompts = Vec<Vec<SequenceHash>>;

/// Share of the prompts that are kept to be asked for.
const KEPT: OneIn = OneIn(3);

/// What a history is filled with, in order, and the prompts to ask for: by length, spread over the younger three quarters.
#[derive(Debug)]
pub(crate) struct Fill {
    prompts: Prompts,
    pub(crate) kept: Vec<Prompts>,
}

// === impl Fill ===

impl Fill {
    /// So many blocks in prompts of these lengths in turn.
    pub(crate) fn new(entries: usize, lengths: &[usize], random: &mut Random) -> Self {
        let (mut prompts, mut kept) = (Prompts::new(), vec![Prompts::new(); lengths.len()]);
        let mut filled = 0;
        for (number, &length) in lengths.iter().enumerate().cycle() {
            if filled >= entries {
                break;
            }
            let prompt = fresh(length, random);
            filled += length;
            if filled > entries / 4 && random.is(KEPT) {
                kept[number].push(prompt.clone());
            }
            prompts.push(prompt);
        }
        Self { prompts, kept }
    }

    pub(crate) fn teach(&self, history: &impl Remember) {
        self.prompts.iter().for_each(|prompt| history.complete(prompt));
    }

    #[cfg(test)]
    pub(crate) fn blocks(&self) -> usize {
        self.prompts.iter().map(Vec::len).sum()
    }
}

/// A prompt that nobody has seen.
pub(crate) fn fresh(blocks: usize, random: &mut Random) -> Vec<SequenceHash> {
    (0..blocks).map(|_| SequenceHash::from_raw(random.next())).collect()
}
