//! What an event says, understood with what its rank said before.

use kvroute_core::{BlockHash, BlockSize, Namespace, PrefixHasher, StoredBlocks};

use crate::ExportedBlock;
use crate::change::Change;
use crate::engine_key::{EngineBlock, EngineKey};
use crate::storing::Behind;

// === impl Change ===

impl Change<'_> {
    /// Takes the size of a new event's blocks; false, and counted as rejected, if it contradicts the rank's.
    pub(crate) fn accept_block_size(&mut self, size: BlockSize) -> bool {
        let is_accepted = self.writer.rank_mut(self.slot).is_some_and(|rank| rank.accept_block_size(size));
        self.applied.rejected += u64::from(!is_accepted);
        is_accepted
    }

    /// Stores an event's blocks as far as their parents are known, and sets the others aside.
    pub(crate) fn store_event(&mut self, event: &StoredBlocks, contents: &[BlockHash]) {
        let keys = || event.hashes.iter().map(EngineKey::from);
        let mut skipped = 0;
        let (mut hasher, behind, first) = match self.parent_of(event) {
            Ok((hasher, behind)) => (hasher, behind, None),
            Err(mut parent) => {
                // A block that the rank holds already needs no parent to be understood.
                let mut found = None;
                for (key, content) in keys().zip(contents) {
                    found = self.rank().and_then(|rank| rank.locate(key));
                    if found.is_some() {
                        break;
                    }
                    self.set_aside(EngineBlock { tier: event.tier, key }, parent, *content);
                    parent = key;
                    skipped += 1;
                }
                let Some(at) = found else { return };
                let sequence = self.shelf.runs.sequence(at);
                (PrefixHasher::after(sequence), Behind::Here(at), Some(sequence))
            }
        };
        let mut first = first;
        let blocks: Vec<ExportedBlock> = keys()
            .zip(contents)
            .skip(skipped)
            .map(|(key, content)| {
                let sequence = first.take().unwrap_or_else(|| hasher.push(*content));
                ExportedBlock { engine_key: key.get(), sequence }
            })
            .collect();
        self.store(event.tier, behind, &blocks);
    }

    /// What stands before an event's first block, or the name of what is unknown. Only at the root do salt and
    /// adapter count, since every further block inherits them through the chain.
    fn parent_of(&self, event: &StoredBlocks) -> Result<(PrefixHasher, Behind), EngineKey> {
        let Some(hash) = &event.parent else {
            let namespace = Namespace::new(event.salt.as_deref(), event.adapter.as_deref());
            return Ok((PrefixHasher::root(namespace), Behind::Root));
        };
        let key = EngineKey::from(hash);
        let at = self.rank().and_then(|rank| rank.locate(key)).ok_or(key)?;
        let sequence = self.shelf.runs.sequence(at);
        Ok((PrefixHasher::after(sequence), Behind::Block(at, sequence)))
    }
}
