use proptest::prelude::*;

use super::*;

#[test]
fn a_record_takes_48_bytes_and_its_entry_4() {
    assert_eq!((size_of::<Record>(), size_of::<Node>()), (48, 4));
    let mut blocks = RememberedBlocks::default();
    for number in 0..1000 {
        use_chain(&mut blocks, &[number], number);
    }
    assert!(
        blocks.by_sequence.allocation_size() <= 2048 * 5 + 64,
        "{}",
        blocks.by_sequence.allocation_size()
    );
    for number in 1000..5000 {
        use_chain(&mut blocks, &[number], number);
        let (used, kept) = (blocks.records.len(), blocks.records.capacity());
        assert!(kept - used <= 1024, "{kept} for {used}");
    }
}

#[test]
fn an_empty_rank_keeps_no_memory() {
    let mut blocks = RememberedBlocks::default();
    for number in 0..1000 {
        use_chain(&mut blocks, &[number, number + 10_000], 0);
    }
    while blocks.pop_oldest(|_| true).is_some() {}
    assert_eq!((blocks.records.capacity(), blocks.by_sequence.capacity()), (0, 0));
}

#[test]
fn records_are_used_again() {
    let mut blocks = RememberedBlocks::default();
    for number in 0..1000 {
        use_chain(&mut blocks, &[number], number);
        use_chain(&mut blocks, &[number + 10_000], number);
        blocks.pop_oldest(|_| true);
    }
    assert_eq!((blocks.len().get(), blocks.records.len()), (1000, 1001));
}

fn chain(blocks: &mut RememberedBlocks, hashes: &[u64]) -> Vec<Node> {
    let mut nodes = Vec::new();
    for hash in hashes {
        let sequence = SequenceHash::from_raw(*hash);
        let node = blocks.find_or_insert(sequence, nodes.last().copied(), &mut Vec::new()).unwrap();
        blocks.pin(node);
        nodes.push(node);
    }
    nodes
}

fn use_chain(blocks: &mut RememberedBlocks, hashes: &[u64], second: u64) {
    let now = Duration::from_secs(second);
    let nodes = chain(blocks, hashes);
    nodes.iter().for_each(|node| blocks.start_use(*node, now));
    nodes.iter().rev().for_each(|node| blocks.end_use(*node, now));
}

/// Every block, oldest first, with a check that both directions of the list agree.
fn listed(blocks: &RememberedBlocks) -> Vec<u64> {
    let mut found = Vec::new();
    let (mut node, mut older) = (blocks.oldest, Node::NONE);
    while let Some(next) = node.some() {
        let record = blocks.record(next);
        assert_eq!(record.older, older);
        found.push(record.sequence.get());
        (older, node) = (next, record.younger);
    }
    assert_eq!(blocks.youngest, older);
    found
}

/// Every block is below its parent, and children know each other in both directions.
fn assert_tree(blocks: &RememberedBlocks) {
    let mut below = 0;
    for node in blocks.by_sequence.iter() {
        let (mut child, mut previous) = (blocks.record(*node).first_child, Node::NONE);
        while let Some(next) = child.some() {
            let record = blocks.record(next);
            assert_eq!((record.parent, record.previous_sibling), (*node, previous));
            assert_eq!(blocks.find(record.sequence), Some(next));
            below += 1;
            (previous, child) = (next, record.next_sibling);
        }
    }
    let parents = blocks.by_sequence.iter().filter(|node| blocks.record(**node).parent != Node::NONE);
    assert_eq!(parents.count(), below);
}

#[test]
fn a_parked_block_comes_back_to_its_old_place() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1]] {
        let mut blocks = RememberedBlocks::default();
        for number in 0..4 {
            use_chain(&mut blocks, &[number], number);
        }
        let pinned: Vec<_> = (0..3).flat_map(|number| chain(&mut blocks, &[number])).collect();
        assert_eq!(blocks.pop_oldest(|_| true), Some(SequenceHash::from_raw(3)));
        use_chain(&mut blocks, &[4], 4);
        order.iter().for_each(|position: &usize| blocks.unpin(pinned[*position]));
        assert_eq!(listed(&blocks), [0, 1, 2, 4]);
    }
}

proptest! {
    /// Hashes of so few values collide all the time: a block is found behind any other, and behind itself.
    #[test]
    fn colliding_hashes_break_no_links(
        steps in prop::collection::vec((prop::collection::vec(0u64..6, 0..6), 0..4u8), 1..60),
    ) {
        let mut blocks = RememberedBlocks::default();
        for (second, (hashes, what)) in (0..).zip(steps) {
            match what {
                0 | 1 => use_chain(&mut blocks, &hashes, second),
                2 => drop(blocks.pop_oldest(|_| true)),
                _ => {
                    let front = hashes.first().and_then(|hash| blocks.find(SequenceHash::from_raw(*hash)));
                    front.map(|front| blocks.remove_behind(front, Duration::MAX));
                }
            }
            assert_tree(&blocks);
            let found = listed(&blocks);
            prop_assert_eq!(found.len() as u64, blocks.len().get());
            prop_assert!(found.iter().all(|hash| blocks.find(SequenceHash::from_raw(*hash)).is_some()));
        }
    }
}
