//! Lookups beside writers that never pause: what was held throughout is always found, and nothing is credited
//! that was never held.

#![expect(clippy::unwrap_used, reason = "a test reports a broken assumption by panicking")]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kvroute_core::{
    BlockSize, EngineHash, KvEvent, Namespace, PromptBlocks, RankSlot, RemovalCause, SequenceHash, Tier,
};
use kvroute_index::{ExportedBlock, IndexOptions, Prefixes, ReportedIndex};

/// Holds the first part of every chain all the time.
const STEADY: RankSlot = RankSlot::new(0);
/// Holds and loses what comes behind it.
const BUSY: [RankSlot; 3] = [RankSlot::new(1), RankSlot::new(2), RankSlot::new(70)];
const CHAINS: u32 = 6;
const LENGTH: usize = 700;
const HELD: usize = 300;
const ROUNDS: usize = 20;

fn size() -> BlockSize {
    BlockSize::new(1).unwrap()
}

fn chain(number: u32) -> PromptBlocks {
    // Chains share their first blocks, and part inside of a run.
    let tokens: Vec<u32> =
        (0..LENGTH as u32).map(|block| if block < 130 { block } else { block + 10_000 * number }).collect();
    PromptBlocks::new(&tokens, size(), Namespace::DEFAULT)
}

fn store(index: &ReportedIndex, slot: RankSlot, hashes: &[SequenceHash], parent: Option<SequenceHash>) {
    let blocks: Vec<ExportedBlock> =
        hashes.iter().map(|hash| ExportedBlock { engine_key: hash.get(), sequence: *hash }).collect();
    let parent = parent.map(SequenceHash::get);
    let _ = index.store(slot, (size(), Tier::Device), parent, &blocks, &mut |_| {});
}

fn remove(index: &ReportedIndex, slot: RankSlot, hashes: &[SequenceHash]) {
    let hashes = hashes.iter().map(|hash| EngineHash::Int(hash.get())).collect();
    let _ = index.apply(slot, &KvEvent::Removed { hashes, tier: Tier::Device }, &mut |_| {});
}

/// Grows chains block by block, breaks holes into them, takes them away from their ends and clears them.
fn disturb(index: &ReportedIndex, slot: RankSlot, chains: &[PromptBlocks]) {
    for round in 0..ROUNDS {
        for (number, chain) in chains.iter().enumerate() {
            let hashes = chain.hashes();
            let end = HELD + (round * 37 + number * 11) % (LENGTH - HELD);
            store(index, slot, &hashes[..end / 2], None);
            for block in end / 2..end {
                store(index, slot, &hashes[block..=block], Some(hashes[block - 1]));
            }
            let holes: Vec<SequenceHash> = hashes.iter().skip(round % 7).step_by(31).copied().collect();
            remove(index, slot, &holes);
            let tail: Vec<SequenceHash> = hashes[end / 3..end].iter().rev().copied().collect();
            remove(index, slot, &tail);
        }
        if round % 5 == 0 {
            index.clear(slot, RemovalCause::Cleared, &mut |_| {});
        }
        if round % 11 == 0 {
            index.remove_rank(slot, &mut |_| {});
        }
    }
}

#[test]
fn what_is_held_throughout_is_found_beside_busy_writers() {
    let index = ReportedIndex::new(IndexOptions::default());
    let chains: Vec<PromptBlocks> = (0..CHAINS).map(chain).collect();
    for chain in &chains {
        store(&index, STEADY, &chain.hashes()[..HELD], None);
    }
    let never_held = PromptBlocks::new(&[7; LENGTH], size(), Namespace::DEFAULT);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut found, mut held) = (Prefixes::default(), Vec::new());
                while !is_done.load(Relaxed) {
                    for chain in &chains {
                        index.cached_prefixes(chain, &mut found);
                        assert_eq!(found.of(STEADY).device.get(), HELD as u64);
                        assert_eq!(
                            found.of(RankSlot::new(5)).device.get(),
                            0,
                            "a rank that never held a block"
                        );
                        index.held_anywhere(chain, HELD - 1, &mut held);
                        assert!(held[0], "held throughout, by a run that begins before it");
                    }
                    index.held_anywhere(&never_held, 0, &mut held);
                    assert_eq!(held, [false; LENGTH], "a chain that nobody ever held");
                }
            });
        }
        let writers = BUSY.map(|slot| {
            let (index, chains) = (&index, &chains);
            scope.spawn(move || disturb(index, slot, chains))
        });
        for writer in writers {
            writer.join().unwrap();
        }
        is_done.store(true, Relaxed);
    });
    for slot in BUSY {
        index.remove_rank(slot, &mut |_| {});
    }
    let (mut found, mut held) = (Prefixes::default(), Vec::new());
    for chain in &chains {
        index.held_anywhere(chain, 0, &mut held);
        assert_eq!(held.iter().rposition(|is_held| *is_held), Some(HELD - 1));
        index.cached_prefixes(chain, &mut found);
        assert_eq!([STEADY, BUSY[0], BUSY[1]].map(|slot| found.of(slot).device.get()), [HELD as u64, 0, 0]);
    }
}
