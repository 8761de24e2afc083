//! Blocks that depend on more than their tokens: the tokens of an image are alike, whatever it shows.

use kvroute_core::{BlockContents, ExtraKey, ItemId, PromptItem};

use super::*;

/// Blocks 1 and 2 of the chain are an image's.
const PLACE: (usize, usize) = (1, 2);

fn image(name: &str) -> [PromptItem; 1] {
    [PromptItem { id: ItemId::new(name), offset: PLACE.0, length: PLACE.1 }]
}

/// The keys that an engine tells of the blocks of the whole chain.
fn keys(name: &str) -> BlockExtras {
    let key = |block: usize| ExtraKey::Item { offset: PLACE.0 as i64 - block as i64, id: ItemId::new(name) };
    BlockExtras::new(vec![(1, key(1)), (2, key(2))])
}

fn stored_with(extras: BlockExtras) -> KvEvent {
    KvEvent::Stored(StoredBlocks { extras, ..stored(None, &CHAIN) })
}

/// Blocks found of a prompt with these items.
fn found(index: &ReportedIndex, slot: RankSlot, items: &[PromptItem]) -> u64 {
    let contents = BlockContents::new(&PROMPT, BlockSize::new(1).unwrap()).with_items(items);
    let mut prefixes = Prefixes::default();
    index.cached_prefixes(&contents.chain(Namespace::DEFAULT), &mut prefixes);
    prefixes.of(slot).device.get()
}

#[test]
fn equal_tokens_with_other_images_are_other_blocks() {
    let index = ReportedIndex::default();
    assert_eq!(apply(&index, A, &stored_with(keys("cat"))).stored, 3);
    assert_eq!(found(&index, A, &image("cat")), 3);
    assert_eq!(found(&index, A, &image("dog")), 1, "up to the placeholder");
    assert_eq!(found(&index, A, &[]), 1);
    let shorter = [PromptItem { length: 1, ..image("cat")[0] }];
    assert_eq!(found(&index, A, &shorter), 2, "the block behind it depends on no image");
    let later = [PromptItem { offset: 2, length: 1, ..image("cat")[0] }];
    assert_eq!(found(&index, A, &later), 1, "the same image at another place");
    let other = StoredBlocks { hashes: names([21, 22, 23]), ..of(stored_with(keys("dog"))) };
    assert_eq!(apply(&index, A, &KvEvent::Stored(other)).stored, 3);
    assert_eq!([found(&index, A, &image("cat")), found(&index, A, &image("dog"))], [3, 3]);
}

fn names(names: [u64; 3]) -> Vec<EngineHash> {
    names.map(EngineHash::Int).to_vec()
}

fn of(event: KvEvent) -> StoredBlocks {
    match event {
        KvEvent::Stored(stored) => stored,
        other => panic!("{other:?}"),
    }
}

#[test]
fn blocks_that_wait_for_their_parent_keep_what_they_depend_on() {
    let index = ReportedIndex::default();
    let all = of(stored_with(keys("cat")));
    let child = StoredBlocks {
        hashes: all.hashes[2..].to_vec(),
        parent: Some(all.hashes[1]),
        tokens: all.tokens[2..].to_vec(),
        extras: BlockExtras::new(vec![(0, ExtraKey::Item { offset: -1, id: ItemId::new("cat") })]),
        ..all.clone()
    };
    assert_eq!(apply(&index, A, &KvEvent::Stored(child)).stored, 0);
    assert_eq!(index.orphans(A).get(), 1);
    let parents = StoredBlocks { hashes: all.hashes[..2].to_vec(), tokens: all.tokens[..2].to_vec(), ..all };
    assert_eq!(apply(&index, A, &KvEvent::Stored(parents)).rejected, 0);
    assert_eq!((found(&index, A, &image("cat")), index.orphans(A).get()), (3, 0));
}

#[test]
fn a_key_that_is_not_understood_matches_no_prompt() {
    let index = ReportedIndex::default();
    let event = stored_with(BlockExtras::new(vec![(1, ExtraKey::unknown(b"new"))]));
    assert_eq!(apply(&index, A, &event).stored, 3, "the blocks are known");
    assert_eq!(prefix(&index, A, &PROMPT), 1);
    assert_eq!(index.blocks(A).get(), 3);
}
