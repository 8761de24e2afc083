use kvroute_core::EngineHash;

use kvroute_core::{BlockExtras, Namespace};

use super::*;
use crate::CachedPrefix;

mod items;

const A: RankSlot = RankSlot::new(0);
const B: RankSlot = RankSlot::new(70);

/// One token a block; the engine names a block as the test says.
fn stored(parent: Option<u64>, blocks: &[(u64, u32)]) -> StoredBlocks {
    StoredBlocks {
        hashes: blocks.iter().map(|(name, _)| EngineHash::Int(*name)).collect(),
        parent: parent.map(EngineHash::Int),
        tokens: blocks.iter().map(|(_, token)| *token).collect(),
        block_size: BlockSize::new(1).unwrap(),
        tier: Tier::Device,
        salt: None,
        adapter: None,
        extras: BlockExtras::default(),
    }
}

fn apply(index: &ReportedIndex, slot: RankSlot, event: &KvEvent) -> Applied {
    index.apply(slot, event, &mut |_| {})
}

fn store(index: &ReportedIndex, slot: RankSlot, parent: Option<u64>, blocks: &[(u64, u32)]) -> Applied {
    apply(index, slot, &KvEvent::Stored(stored(parent, blocks)))
}

fn store_on(index: &ReportedIndex, tier: Tier, parent: Option<u64>, blocks: &[(u64, u32)]) {
    let applied = apply(index, A, &KvEvent::Stored(StoredBlocks { tier, ..stored(parent, blocks) }));
    assert_eq!(applied, Applied { stored: blocks.len() as u64, ..Applied::default() });
}

fn remove(index: &ReportedIndex, slot: RankSlot, name: u64) -> Applied {
    apply(index, slot, &KvEvent::Removed { hashes: vec![EngineHash::Int(name)], tier: Tier::Device })
}

fn prefix_in(index: &ReportedIndex, slot: RankSlot, namespace: Namespace, tokens: &[u32]) -> CachedPrefix {
    let prompt = PromptBlocks::new(tokens, BlockSize::new(1).unwrap(), namespace);
    let mut found = Prefixes::default();
    index.cached_prefixes(&prompt, &mut found);
    found.of(slot)
}

fn prefix(index: &ReportedIndex, slot: RankSlot, tokens: &[u32]) -> u64 {
    prefix_in(index, slot, Namespace::DEFAULT, tokens).device.get()
}

const CHAIN: [(u64, u32); 3] = [(11, 1), (12, 2), (13, 3)];
const PROMPT: [u32; 4] = [1, 2, 3, 4];

#[test]
fn a_repeated_store_changes_nothing_and_one_removal_ends_it() {
    let index = ReportedIndex::default();
    assert_eq!(store(&index, A, None, &CHAIN), Applied { stored: 3, ..Applied::default() });
    assert_eq!(store(&index, A, None, &CHAIN), Applied { duplicate: 3, ..Applied::default() });
    assert_eq!(index.blocks(A), Blocks::new(3));
    assert_eq!(remove(&index, A, 13), Applied { removed: 1, ..Applied::default() });
    assert_eq!(prefix(&index, A, &PROMPT), 2);
    assert_eq!(remove(&index, A, 13), Applied { unknown: 1, ..Applied::default() });
}

#[test]
fn two_names_of_one_content_are_two_copies() {
    let index = ReportedIndex::default();
    let _ = store(&index, A, None, &[(11, 1)]);
    assert_eq!(store(&index, A, None, &[(21, 1)]).stored, 1);
    assert_eq!(index.blocks(A), Blocks::new(1));
    let _ = remove(&index, A, 11);
    assert_eq!((prefix(&index, A, &PROMPT), index.blocks(A)), (1, Blocks::new(1)));
    let _ = remove(&index, A, 21);
    assert_eq!((prefix(&index, A, &PROMPT), index.blocks(A)), (0, Blocks::ZERO));
}

#[test]
fn a_removed_middle_block_shortens_the_prefix_until_it_returns() {
    let index = ReportedIndex::default();
    let _ = store(&index, A, None, &CHAIN);
    let _ = store(&index, B, None, &CHAIN);
    let _ = remove(&index, A, 12);
    assert_eq!((prefix(&index, A, &PROMPT), prefix(&index, B, &PROMPT)), (1, 3));
    let _ = store(&index, A, Some(11), &[(12, 2)]);
    assert_eq!(prefix(&index, A, &PROMPT), 3);
}

#[test]
fn a_child_without_a_parent_waits_for_it_and_never_counts_at_the_root() {
    let index = ReportedIndex::default();
    let applied = store(&index, A, Some(11), &[(12, 2), (13, 3)]);
    assert_eq!(applied, Applied { orphaned: 2, ..Applied::default() });
    assert_eq!(store(&index, A, Some(11), &[(12, 2)]), Applied { duplicate: 1, ..Applied::default() });
    assert_eq!((prefix(&index, A, &[2, 3]), prefix(&index, A, &PROMPT)), (0, 0));
    assert_eq!((index.orphans(A), index.blocks(A)), (Blocks::new(2), Blocks::ZERO));
    assert_eq!(store(&index, A, None, &[(11, 1)]), Applied { stored: 3, ..Applied::default() });
    assert_eq!((prefix(&index, A, &PROMPT), index.orphans(A)), (3, Blocks::ZERO));
}

#[test]
fn a_waiting_block_can_be_removed_or_cleared() {
    let index = ReportedIndex::default();
    let _ = store(&index, A, Some(11), &[(12, 2), (13, 3)]);
    assert_eq!(remove(&index, A, 12), Applied { removed: 1, ..Applied::default() });
    let _ = store(&index, A, None, &[(11, 1)]);
    assert_eq!((prefix(&index, A, &PROMPT), index.orphans(A)), (1, Blocks::new(1)));
    assert_eq!(apply(&index, A, &KvEvent::Cleared), Applied { removed: 1, ..Applied::default() });
    let _ = store(&index, A, None, &[(11, 1), (12, 2)]);
    assert_eq!((prefix(&index, A, &PROMPT), index.orphans(A)), (2, Blocks::ZERO));
}

#[test]
fn orphans_of_one_rank_never_find_a_parent_on_another() {
    let index = ReportedIndex::default();
    let _ = store(&index, A, Some(11), &[(12, 2)]);
    let _ = store(&index, B, None, &[(11, 1)]);
    assert_eq!((index.orphans(A), prefix(&index, A, &PROMPT)), (Blocks::new(1), 0));
}

#[test]
fn the_oldest_orphans_are_dropped_at_the_limit() {
    let index = ReportedIndex::new(IndexOptions { orphan_limit: 2, ..IndexOptions::default() });
    let _ = store(&index, A, Some(11), &[(12, 2)]);
    let _ = store(&index, A, Some(21), &[(22, 6)]);
    let applied = store(&index, A, Some(31), &[(32, 8)]);
    assert_eq!(applied, Applied { orphaned: 1, dropped: 1, ..Applied::default() });
    let _ = store(&index, A, None, &[(11, 1)]);
    let _ = store(&index, A, None, &[(21, 5)]);
    let _ = store(&index, A, None, &[(31, 7)]);
    let prefixes = [prefix(&index, A, &[1, 2]), prefix(&index, A, &[5, 6]), prefix(&index, A, &[7, 8])];
    assert_eq!((prefixes, index.orphans(A)), ([1, 2, 2], Blocks::ZERO));
}

#[test]
fn a_waiting_block_with_a_new_parent_forgets_the_old_one() {
    let index = ReportedIndex::default();
    let _ = store(&index, A, Some(11), &[(12, 2)]);
    assert_eq!(store(&index, A, Some(21), &[(12, 2)]).orphaned, 1);
    let _ = store(&index, A, None, &[(11, 1)]);
    assert_eq!(prefix(&index, A, &[1, 2]), 1);
    let _ = store(&index, A, None, &[(21, 5)]);
    assert_eq!(prefix(&index, A, &[5, 2]), 2);
}

#[test]
fn a_waiting_block_that_becomes_known_by_itself_waits_no_longer() {
    let index = ReportedIndex::default();
    let _ = store(&index, A, Some(11), &[(12, 2)]);
    let applied = store(&index, A, None, &[(12, 9)]);
    assert_eq!(applied, Applied { stored: 1, ..Applied::default() });
    assert_eq!((index.orphans(A), prefix(&index, A, &[9])), (Blocks::ZERO, 1));
}

#[test]
fn what_one_tier_knows_of_a_name_serves_the_others() {
    let index = ReportedIndex::default();
    let on_host =
        |parent, blocks: &[_]| KvEvent::Stored(StoredBlocks { tier: Tier::Host, ..stored(parent, blocks) });
    assert_eq!(apply(&index, A, &on_host(Some(98), &[(11, 1)])).orphaned, 1);
    assert_eq!(store(&index, A, None, &CHAIN).stored, 4);
    assert_eq!(apply(&index, A, &on_host(Some(98), &[(12, 2)])).stored, 1);
    let _ = remove(&index, A, 11);
    let cached = prefix_in(&index, A, Namespace::DEFAULT, &PROMPT);
    assert_eq!((cached.device, cached.host, index.orphans(A)), (Blocks::ZERO, Blocks::new(2), Blocks::ZERO));
}

#[test]
fn an_event_whose_tokens_do_not_fill_its_blocks_is_rejected() {
    let index = ReportedIndex::default();
    for tokens in [vec![], vec![1, 2], vec![1, 2, 3, 4]] {
        let event = StoredBlocks { tokens, ..stored(None, &CHAIN) };
        assert_eq!(apply(&index, A, &KvEvent::Stored(event)), Applied { rejected: 1, ..Applied::default() });
    }
    assert_eq!((index.blocks(A), index.block_size(A)), (Blocks::ZERO, None));
}

#[test]
fn a_size_that_contradicts_the_rank_is_rejected_until_it_is_empty() {
    let index = ReportedIndex::default();
    let _ = store(&index, A, None, &CHAIN);
    let two = BlockSize::new(2).unwrap();
    let event =
        StoredBlocks { tokens: PROMPT.to_vec(), block_size: two, ..stored(None, &[(21, 0), (22, 0)]) };
    let event = KvEvent::Stored(event);
    assert_eq!(apply(&index, A, &event), Applied { rejected: 1, ..Applied::default() });
    assert_eq!(index.clear(A, RemovalCause::Cleared, &mut |_| {}), Blocks::new(3));
    assert_eq!(index.block_size(A), BlockSize::new(1).ok());
    assert_eq!(apply(&index, A, &event).stored, 2);
    assert_eq!(index.block_size(A), Some(two));
}

#[test]
fn a_prompt_cut_by_another_size_gets_nothing() {
    let index = ReportedIndex::default();
    let _ = store(&index, A, None, &CHAIN);
    let event = StoredBlocks {
        tokens: PROMPT.to_vec(),
        block_size: BlockSize::new(2).unwrap(),
        ..stored(None, &[(21, 0), (22, 0)])
    };
    let _ = apply(&index, B, &KvEvent::Stored(event));
    let unknown = RankSlot::new(999);
    let lengths = |size| {
        let prompt = PromptBlocks::new(&PROMPT, BlockSize::new(size).unwrap(), Namespace::DEFAULT);
        let mut found = Prefixes::default();
        index.cached_prefixes(&prompt, &mut found);
        [B, unknown, A].map(|slot| found.of(slot).blocks().get())
    };
    assert_eq!([lengths(1), lengths(2), lengths(4)], [[0, 0, 3], [2, 0, 0], [0, 0, 0]]);
}

#[test]
fn a_namespace_is_set_at_the_root_and_inherited() {
    let index = ReportedIndex::default();
    let salted = |parent, blocks: &[_]| StoredBlocks {
        salt: Some("tenant".into()),
        adapter: Some("lora".into()),
        ..stored(parent, blocks)
    };
    let _ = apply(&index, A, &KvEvent::Stored(salted(None, &[(11, 1)])));
    let _ = store(&index, A, Some(11), &[(12, 2)]);
    let _ = apply(&index, A, &KvEvent::Stored(salted(Some(12), &[(13, 3)])));
    let namespace = Namespace::new(Some("tenant"), Some("lora"));
    assert_eq!(prefix_in(&index, A, namespace, &PROMPT).device, Blocks::new(3));
    assert_eq!(prefix(&index, A, &PROMPT), 0);
}

#[test]
fn lower_tiers_continue_where_the_faster_one_ended() {
    let index = ReportedIndex::default();
    store_on(&index, Tier::Device, None, &[(11, 1)]);
    store_on(&index, Tier::Disk, Some(11), &[(12, 2), (13, 3), (14, 4), (15, 5)]);
    store_on(&index, Tier::Host, None, &[(11, 1), (12, 2), (13, 3)]);
    store_on(&index, Tier::Device, Some(13), &[(14, 4)]);
    store_on(&index, Tier::Host, Some(14), &[(15, 5)]);
    let cached = prefix_in(&index, A, Namespace::DEFAULT, &[1, 2, 3, 4, 5, 6]);
    let expected = CachedPrefix { device: Blocks::new(1), host: Blocks::new(2), disk: Blocks::new(2) };
    assert_eq!((cached, cached.blocks()), (expected, Blocks::new(5)));
    assert_eq!(Tier::ALL.map(|tier| cached.tier(tier).get()), [1, 2, 2]);
}

#[test]
fn leaving_one_tier_keeps_the_other() {
    let index = ReportedIndex::default();
    store_on(&index, Tier::Device, None, &CHAIN);
    store_on(&index, Tier::Host, None, &CHAIN);
    let _ = remove(&index, A, 11);
    let cached = prefix_in(&index, A, Namespace::DEFAULT, &PROMPT);
    assert_eq!((cached.device, cached.host), (Blocks::ZERO, Blocks::new(3)));
}

#[test]
fn digests_name_blocks_as_integers_do() {
    let index = ReportedIndex::default();
    let digest = |last: u8| {
        let mut bytes = [7; 32];
        bytes[31] = last;
        EngineHash::Digest(bytes)
    };
    let event = |parent, name: u8, token| StoredBlocks {
        hashes: vec![digest(name)],
        parent,
        tokens: vec![token],
        ..stored(None, &[])
    };
    let _ = apply(&index, A, &KvEvent::Stored(event(None, 1, 1)));
    let _ = apply(&index, A, &KvEvent::Stored(event(Some(digest(1)), 2, 2)));
    assert_eq!(prefix(&index, A, &PROMPT), 2);
    let removed = KvEvent::Removed { hashes: vec![digest(1)], tier: Tier::Device };
    assert_eq!(apply(&index, A, &removed).removed, 1);
    assert_eq!(prefix(&index, A, &PROMPT), 0);
}

#[test]
fn a_name_that_changes_its_meaning_forgets_the_old_one_on_every_tier() {
    let index = ReportedIndex::default();
    store_on(&index, Tier::Device, None, &CHAIN);
    store_on(&index, Tier::Host, None, &CHAIN);
    let applied = store(&index, A, None, &[(11, 9)]);
    assert_eq!(applied, Applied { stored: 1, conflicting: 1, ..Applied::default() });
    let cached = prefix_in(&index, A, Namespace::DEFAULT, &PROMPT);
    assert_eq!((cached.blocks(), prefix(&index, A, &[9])), (Blocks::ZERO, 1));
}

#[test]
fn a_removed_rank_leaves_nothing_behind_and_its_slot_is_free() {
    let index = ReportedIndex::default();
    let chain: Vec<_> = (0..1000).map(|block| (1000 + block, block as u32)).collect();
    for slot in [A, B] {
        let _ = store(&index, slot, None, &chain);
        let _ = store(&index, slot, Some(5), &[(6, 6)]);
    }
    index.remove_rank(A, &mut |_| {});
    assert_eq!((index.blocks(A), index.orphans(A), index.block_size(A)), (Blocks::ZERO, Blocks::ZERO, None));
    assert_eq!((prefix(&index, A, &[0, 1]), prefix(&index, B, &[0, 1])), (0, 2));
    assert_eq!(store(&index, A, Some(1000), &[(1001, 1)]).orphaned, 1);
    index.remove_rank(A, &mut |_| {});
    index.remove_rank(B, &mut |_| {});
    let writer = index.writer.lock();
    assert_eq!((writer.store.pages.used(), writer.table_bytes, writer.names), (0, 0, 0));
    drop(writer);
    index.remove_rank(RankSlot::new(5000), &mut |_| {});
    assert_eq!(index.clear(RankSlot::new(5000), RemovalCause::Cleared, &mut |_| {}), Blocks::ZERO);
}
