//! The history of one pool: what it knows, and the file that keeps it.

use kvroute_core::{Blocks, Namespace, PromptBlocks, TokenId};
use kvroute_metrics::{HistoryBounds, Metrics, MetricsOptions, PoolLabels};

use super::*;
use crate::config::{HistoryConfig, PoolConfig, WorkerConfig};

const SIZE: u32 = 4;

fn size(tokens: u32) -> BlockSize {
    BlockSize::new(tokens).unwrap()
}

fn history() -> Arc<PoolHistory> {
    let set = History::new(1 << 20, 7);
    let bounds = HistoryBounds { capacity: set.capacity(), bytes: set.capacity_bytes() };
    let model = ModelName::new("m");
    let labels = PoolLabels {
        model: &model,
        policy: "kv",
        reasons: &[],
        shadows: &[],
        phases: &[],
        counts_input: true,
        history: Some(bounds),
    };
    let metrics = Metrics::new(&MetricsOptions::default()).unwrap().pool(&labels);
    Arc::new(PoolHistory::new(model, set, None, Arc::clone(metrics.history().unwrap())))
}

fn hashed(prompts: &[Vec<TokenId>], sizes: &[u32]) -> HashedPrompts {
    let sizes: Vec<_> = sizes.iter().map(|tokens| size(*tokens)).collect();
    HashedPrompts::new(prompts, &sizes, Namespace::DEFAULT, || {})
}

fn prompt(seed: u32, tokens: u32) -> Vec<TokenId> {
    (0..tokens).map(|token| seed * 1000 + token).collect()
}

fn teach(history: &PoolHistory, prompt: &[TokenId], tokens: u32) {
    let blocks = PromptBlocks::new(prompt, size(tokens), Namespace::DEFAULT);
    history.teach(size(tokens), blocks.hashes(), &[]);
}

#[test]
fn a_prompt_is_known_as_far_as_some_prompt_before_it_was_the_same() {
    let history = history();
    let asked = hashed(&[prompt(1, 19)], &[SIZE]);
    assert_eq!(history.look_up(&asked).unwrap().total, Tokens::ZERO);
    teach(&history, &prompt(1, 11), SIZE);
    let known = history.look_up(&asked).unwrap();
    assert_eq!((known.size, known.total), (size(SIZE), Tokens::new(8)), "whole blocks");
    assert_eq!(history.look_up(&HashedPrompts::default()), None);
}

#[test]
fn each_prompt_of_a_list_is_known_by_itself() {
    let history = history();
    history.begin(size(SIZE));
    teach(&history, &prompt(1, 8), SIZE);
    teach(&history, &prompt(2, 12), SIZE);
    let known = history.look_up(&hashed(&[prompt(2, 13), prompt(3, 9), prompt(1, 40)], &[SIZE])).unwrap();
    assert_eq!(known.of_prompts, [12, 0, 8].map(Tokens::new));
    assert_eq!(known.total, Tokens::new(20));
}

#[test]
fn another_smallest_block_begins_anew_and_what_was_hashed_before_is_not_learned_any_more() {
    let history = history();
    let both = hashed(&[prompt(1, 16)], &[16, SIZE]);
    history.look_up(&both).unwrap();
    teach(&history, &prompt(1, 16), SIZE);
    assert_eq!(history.look_up(&both).unwrap().size, size(SIZE), "the smallest");
    assert_eq!(history.reach().levels.blocks, Blocks::new(4));
    let larger = hashed(&[prompt(1, 16)], &[16]);
    assert_eq!(history.look_up(&larger).unwrap().total, Tokens::ZERO);
    teach(&history, &prompt(1, 16), SIZE);
    assert_eq!(history.reach().levels.blocks, Blocks::ZERO, "an attempt of the time before has ended");
    teach(&history, &prompt(1, 16), 16);
    assert_eq!(history.look_up(&larger).unwrap().total, Tokens::new(16));
}

fn kept_in(path: &std::path::Path) -> (PoolConfig, Arc<HistoryFile>) {
    let history =
        HistoryConfig { enabled: true, snapshot: Some(path.to_owned()), ..HistoryConfig::default() };
    let workers = vec![WorkerConfig::at("http://a:1")];
    let pool = PoolConfig { model: Some(ModelName::new("m")), history, ..PoolConfig::of_workers(workers) };
    let file = Arc::new(HistoryFile::open(path, &pool).unwrap());
    (pool, file)
}

#[tokio::test]
async fn what_was_known_is_known_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.snap");
    let (_, file) = kept_in(&path);
    let before = history();
    before.get_ready(size(SIZE), Some(&file)).await;
    teach(&before, &prompt(1, 40), SIZE);
    file.save(&[Arc::clone(&before)]);

    let (_, file) = kept_in(&path);
    let after = history();
    file.save(&[Arc::clone(&after)]);
    after.get_ready(size(SIZE), Some(&file)).await;
    let asked = hashed(&[prompt(1, 80)], &[SIZE]);
    assert_eq!(after.look_up(&asked).unwrap().total, Tokens::new(40), "an early save left the file alone");
    assert_eq!(after.reach().levels.blocks, Blocks::new(10));
    file.save(&[]);
    assert_ne!(std::fs::metadata(&path).unwrap().len(), 0);
}

#[tokio::test]
async fn a_file_of_another_block_size_teaches_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.snap");
    let (_, file) = kept_in(&path);
    let before = history();
    before.get_ready(size(SIZE), Some(&file)).await;
    teach(&before, &prompt(1, 64), SIZE);
    file.save(&[before]);
    let (_, file) = kept_in(&path);
    let after = history();
    after.get_ready(size(16), Some(&file)).await;
    assert_eq!(after.reach().levels.blocks, Blocks::ZERO);
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.snap");
    std::fs::write(&path, b"something else").unwrap();
    let (_, file) = kept_in(&path);
    let history = history();
    history.get_ready(size(SIZE), Some(&file)).await;
    teach(&history, &prompt(1, 8), SIZE);
    file.save(&[Arc::clone(&history)]);
    let (_, file) = kept_in(&path);
    let again = self::history();
    again.get_ready(size(SIZE), Some(&file)).await;
    assert_eq!(again.reach().levels.blocks, Blocks::new(2));
}
