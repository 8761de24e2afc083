//! What an engine tells of a chat with images: its tokens, and which items stand for which of them. Whatever is taken can be
//! made blocks of.

#![no_main]

use kvroute_core::{BlockExtras, BlockSize};
use kvroute_engine::fuzz::rendered_chat;
use kvroute_fuzz::json_tree;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|answer: &[u8]| {
    let Ok(Some(chat)) = rendered_chat(answer) else { return };
    assert!(!chat.items.is_empty());
    assert!(chat.items.is_sorted_by_key(|item| item.offset));
    for item in &chat.items {
        assert!(item.length > 0 && item.offset + item.length <= chat.ids.len(), "{item:?} is outside");
    }
    for size in [1, 16] {
        let Ok(size) = BlockSize::new(size) else { return };
        let blocks = chat.ids.len() / size.get() as usize;
        let extras = BlockExtras::of_items(&chat.items, size, blocks);
        let keys: usize = (0..blocks).map(|block| extras.of_block(block).count()).sum();
        let most: usize = chat.items.iter().map(|item| item.length).sum();
        assert!(keys <= most, "{keys} keys of {most} tokens");
        for item in chat.items.iter().filter(|item| item.offset / (size.get() as usize) < blocks) {
            assert!(extras.of_block(item.offset / size.get() as usize).next().is_some(), "{item:?} is lost");
        }
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let as_tree =
        if seed.is_multiple_of(4) { None } else { json_tree::mutate_in_place(data, size, max_size, seed) };
    as_tree.unwrap_or_else(|| fuzzer_mutate(data, size, max_size))
});
