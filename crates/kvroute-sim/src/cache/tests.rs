use std::io::Read;

use flate2::read::GzDecoder;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

mod model;

fn cache(blocks: u32, block_size: u32) -> PrefixCache {
    PrefixCache::new(blocks, BlockSize::new(block_size).unwrap(), 7)
}

fn chain(tokens: &[TokenId]) -> Chain {
    Chain::new(tokens.to_vec(), CacheUse::default())
}

impl PrefixCache {
    /// Caches every complete block: all tokens are computed.
    fn store(&mut self, chain: &mut Chain) -> usize {
        self.store_computed(chain, chain.len())
    }
}

fn of_tenant(salt: Option<Arc<str>>) -> CacheUse {
    CacheUse { salt, ..CacheUse::default() }
}

/// Computes a prompt and ends: returns the reused tokens.
fn serve(cache: &mut PrefixCache, tokens: &[TokenId]) -> usize {
    let mut chain = chain(tokens);
    let reused = cache.admit(&mut chain).unwrap();
    cache.store(&mut chain);
    cache.release(&mut chain);
    reused
}

#[test]
fn reuse_is_whole_blocks_and_leaves_the_last_token() {
    let mut cache = cache(8, 4);
    let prompt: Vec<_> = (0..10).collect();
    assert_eq!(serve(&mut cache, &prompt), 0);
    assert_eq!(serve(&mut cache, &prompt), 8);
    assert_eq!(serve(&mut cache, &prompt[..9]), 8);
    assert_eq!(serve(&mut cache, &prompt[..8]), 4);
    assert_eq!(serve(&mut cache, &prompt[1..]), 0);
}

#[test]
fn the_salt_separates_and_is_told_with_the_root_block_only() {
    let mut cache = cache(8, 2);
    serve(&mut cache, &[1, 2, 3, 4, 5]);
    let salt: Option<Arc<str>> = Some(Arc::from("tenant"));
    let mut salted = Chain::new(vec![1, 2, 3], of_tenant(salt.clone()));
    assert_eq!(cache.admit(&mut salted), Some(0));
    cache.store(&mut salted);
    salted.push(4);
    assert!(cache.extend(&mut salted));
    cache.store(&mut salted);
    let salts: Vec<_> = cache.take_changes().into_iter().filter_map(stored).map(|run| run.salt).collect();
    assert_eq!(salts, [None, salt, None]);
}

#[test]
fn a_tree_holds_equal_content_once_and_tells_it_once() {
    let mut cache = cache(8, 2).into_tree();
    let (mut first, mut second) = (chain(&[1, 2, 3, 4, 5]), chain(&[1, 2, 3, 4, 6]));
    assert_eq!((cache.admit(&mut first), cache.admit(&mut second)), (Some(0), Some(0)));
    assert_eq!((cache.store(&mut first), cache.store(&mut second)), (2, 0));
    assert_eq!((cache.held_blocks(), cache.take_changes().len()), (4, 1));
    cache.release(&mut first);
    cache.release(&mut second);
    assert_eq!((cache.held_blocks(), cache.used_blocks(), cache.contents()), (0, 2, 2));
}

#[test]
fn a_hidden_tenant_shares_nothing_and_looks_like_anybody() {
    let mut cache = cache(4, 2).into_tree();
    serve(&mut cache, &[1, 2, 3]);
    let cache_use = CacheUse { hidden: Some(Arc::from("tenant")), ..CacheUse::default() };
    let mut hidden = Chain::new(vec![1, 2, 3], cache_use);
    assert_eq!(cache.admit(&mut hidden), Some(0));
    cache.store(&mut hidden);
    cache.release(&mut hidden);
    let runs: Vec<_> = cache.take_changes().into_iter().filter_map(stored).collect();
    assert_eq!(runs[0], runs[1]);
    serve(&mut cache, &[11, 12, 13, 14, 15, 16]);
    let removed = |change| matches!(change, CacheChange::Removed(key) if key == runs[0].keys[0]);
    assert_eq!(cache.take_changes().into_iter().filter(|change| removed(change.clone())).count(), 1);
}

#[test]
fn blocks_of_running_sequences_are_not_evicted() {
    let mut cache = cache(3, 2);
    let mut running = chain(&[1, 2, 3]);
    cache.admit(&mut running).unwrap();
    assert_eq!(cache.admit(&mut chain(&[5, 6, 7])), None);
    assert_eq!(serve(&mut cache, &[5]), 0);
    assert!(!cache.clear());
    running.push(4);
    assert!(cache.extend(&mut running));
    running.push(8);
    assert!(cache.extend(&mut running));
    assert_eq!(cache.held_blocks(), 3);
    running.push(9);
    assert!(cache.extend(&mut running), "the block has room for two tokens");
    running.push(10);
    assert!(!cache.extend(&mut running));
    cache.release(&mut running);
    assert_eq!(cache.held_blocks(), 0);
    assert!(cache.clear());
}

fn stored(change: CacheChange) -> Option<StoredRun> {
    match change {
        CacheChange::Stored(run) => Some(run),
        _ => None,
    }
}

/// One request of the recorded session, or a reset.
fn recorded_session() -> Vec<Value> {
    let mut text = String::new();
    let compressed = include_bytes!("../../tests/fixtures/vllm-session.jsonl.gz");
    GzDecoder::new(&compressed[..]).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The engine's id of each of our keys: built from what is stored, checked by what is removed.
#[derive(Default)]
struct Translation(std::collections::HashMap<u64, u64>);

impl Translation {
    fn event(&mut self, change: &CacheChange, recorded: &Value) -> Value {
        match change {
            CacheChange::Cleared => Value::from("cleared"),
            CacheChange::Removed(key) => serde_json::json!({ "removed": self.0.get(&key.get()) }),
            CacheChange::Stored(run) => {
                let theirs = recorded["stored"].as_array().cloned().unwrap_or_default();
                for (ours, theirs) in run.keys.iter().zip(&theirs) {
                    let theirs = theirs.as_u64().unwrap();
                    let known = self.0.insert(ours.get(), theirs);
                    assert!(known.is_none_or(|known| known == theirs), "equal content, equal id");
                }
                let ids: Vec<_> = run.keys.iter().map(|key| self.0.get(&key.get())).collect();
                serde_json::json!({ "stored": ids })
            }
        }
    }
}

#[test]
fn a_recorded_vllm_session_gives_the_same_reuse_and_the_same_events() {
    let mut cache = cache(64, 32);
    let mut translation = Translation::default();
    let session = recorded_session();
    assert_eq!(session.len(), 71);
    for (number, request) in session.iter().enumerate() {
        if request["reset"] == true {
            assert!(cache.clear());
            continue;
        }
        let prompt: Vec<TokenId> = serde_json::from_value(request["prompt"].clone()).unwrap();
        let generated: Vec<TokenId> = serde_json::from_value(request["generated"].clone()).unwrap();
        let mut chain = Chain::new(prompt, of_tenant(request["salt"].as_str().map(Arc::from)));
        let mut batches = Vec::new();
        let reused = cache.admit(&mut chain).unwrap();
        let created = cache.store(&mut chain) * 32;
        batches.push(cache.take_changes());
        // The last token ends the answer, so it is never computed.
        for token in &generated[..generated.len() - 1] {
            chain.push(*token);
            assert!(cache.extend(&mut chain));
            cache.store(&mut chain);
            batches.push(cache.take_changes());
        }
        cache.release(&mut chain);
        batches.retain(|batch| !batch.is_empty());

        assert_eq!(request["cached_tokens"], reused, "request {number}");
        if let Some(expected) = request["created_cache_tokens"].as_u64() {
            assert_eq!(created as u64, expected, "request {number}");
        }
        let recorded = request["batches"].as_array().unwrap();
        assert_eq!(batches.len(), recorded.len(), "request {number}: {batches:?}");
        for (ours, theirs) in batches.iter().zip(recorded) {
            let ours: Vec<_> = ours
                .iter()
                .enumerate()
                .map(|(index, change)| translation.event(change, &theirs[index]))
                .collect();
            assert_eq!(Value::from(ours), *theirs, "request {number}");
        }
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Start { prompt: Vec<TokenId>, salted: bool },
    Generate { sequence: usize, token: TokenId },
    End { sequence: usize },
    Clear,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (prop::collection::vec(0u32..2, 1..14), any::<bool>())
            .prop_map(|(prompt, salted)| Operation::Start { prompt, salted }),
        8 => (any::<prop::sample::Index>(), 0u32..2)
            .prop_map(|(sequence, token)| Operation::Generate { sequence: sequence.index(4), token }),
        3 => (0usize..4).prop_map(|sequence| Operation::End { sequence }),
        1 => Just(Operation::Clear),
    ]
}

proptest! {
    #[test]
    fn behaves_like_a_list_of_blocks(
        blocks in 1u32..12,
        block_size in 1u32..4,
        operations in prop::collection::vec(operation(), 1..80),
    ) {
        let mut cache = cache(blocks, block_size);
        let mut model = model::Model::new(blocks as usize, block_size as usize);
        let mut running: Vec<(Chain, model::Sequence)> = Vec::new();
        let mut names = model::Names::default();
        for operation in operations {
            match operation {
                Operation::Start { prompt, salted } => {
                    let salt = salted.then(|| Arc::from("s"));
                    let mut chain = Chain::new(prompt.clone(), of_tenant(salt));
                    let mut sequence = model::Sequence::new(prompt, salted);
                    let reused = cache.admit(&mut chain);
                    prop_assert_eq!(reused, model.admit(&mut sequence));
                    if reused.is_some() {
                        prop_assert_eq!(cache.store(&mut chain), model.store(&mut sequence));
                        running.push((chain, sequence));
                    }
                }
                Operation::Generate { sequence, token } => {
                    let Some((chain, sequence)) = running.get_mut(sequence) else { continue };
                    chain.push(token);
                    sequence.tokens.push(token);
                    let extended = cache.extend(chain);
                    prop_assert_eq!(extended, model.extend(sequence));
                    if extended {
                        prop_assert_eq!(cache.store(chain), model.store(sequence));
                    }
                }
                Operation::End { sequence } => {
                    if sequence < running.len() {
                        let (mut chain, sequence) = running.remove(sequence);
                        cache.release(&mut chain);
                        model.release(sequence);
                    }
                }
                Operation::Clear => prop_assert_eq!(cache.clear(), model.clear()),
            }
            // A sequence that found no room has to end, as the scheduler makes it.
            if let Some(stuck) = running.iter().position(|(_, sequence)| model.is_stuck(sequence)) {
                let (mut chain, sequence) = running.remove(stuck);
                cache.release(&mut chain);
                model.release(sequence);
            }
            prop_assert_eq!(names.translate(cache.take_changes()), model.take_changes());
            prop_assert_eq!(cache.held_blocks(), model.held());
            prop_assert_eq!(cache.used_blocks(), model.used());
        }
    }
}
