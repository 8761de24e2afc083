//! What a lookup must answer, told by the definition: a worker's prefix ends before the first block that it does not hold.

use std::collections::{HashMap, HashSet};

use super::workload::{Event, Workload, block_names};

/// Who holds which block.
#[derive(Debug, Default)]
pub(crate) struct Model {
    workers: usize,
    holders: HashMap<u64, HashSet<u32>>,
}

// === impl Model ===

impl Model {
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers, holders: HashMap::new() }
    }

    pub(crate) fn apply(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::Store { worker, blocks, .. } => {
                    for block in blocks {
                        self.holders.entry(block.name).or_default().insert(*worker);
                    }
                }
                Event::Remove { worker, names } => {
                    for name in names {
                        self.holders.entry(*name).or_default().remove(worker);
                    }
                }
            }
        }
    }

    /// The length of every worker's prefix, for one query after the other.
    pub(crate) fn answers<'a>(&'a self, workload: &'a Workload) -> impl Iterator<Item = Vec<u32>> + 'a {
        workload.queries.iter().map(|query| self.answer(&block_names(query)))
    }

    fn answer(&self, names: &[u64]) -> Vec<u32> {
        let mut prefixes = vec![0; self.workers];
        for (position, name) in names.iter().enumerate() {
            let Some(holders) = self.holders.get(name).filter(|holders| !holders.is_empty()) else { break };
            for worker in holders {
                let prefix = &mut prefixes[*worker as usize];
                if *prefix as usize == position {
                    *prefix += 1;
                }
            }
        }
        prefixes
    }
}

#[cfg(test)]
mod tests {
    use kvroute_core::SequenceHash;

    use super::*;
    use crate::index::workload::Block;

    #[test]
    fn a_prefix_ends_at_the_first_block_that_is_missing() {
        let query = vec![1, 2, 3];
        let names = block_names(&query);
        let mut model = Model::new(2);
        let store = |worker, names: &[u64]| Event::Store {
            worker,
            parent: None,
            blocks: names
                .iter()
                .map(|&name| Block { content: 0, sequence: SequenceHash::from_raw(0), name })
                .collect(),
        };
        model.apply(&[store(0, &names), store(1, &names)]);
        assert_eq!(model.answer(&names), [3, 3]);
        model.apply(&[Event::Remove { worker: 1, names: vec![names[1]] }]);
        assert_eq!(model.answer(&names), [3, 1]);
    }
}
