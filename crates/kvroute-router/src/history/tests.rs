//! The history of one pool: what it knows, and the file that keeps it.

use kvroute_core::{Blocks, Namespace, PromptBlocks, TokenId};
use kvroute_metrics::{HistoryBounds, Metrics, MetricsOptions, PoolLabels};

use super::*;

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
    assert_eq!(history.look_up(&asked), None, "no worker has told its block size");
    history.begin(size(SIZE));
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

#[tokio::test(start_paused = true)]
async fn a_smaller_block_begins_anew_and_what_was_hashed_before_is_not_learned_any_more() {
    let history = history();
    history.get_ready(size(16), None, &CancellationToken::new()).await;
    teach(&history, &prompt(1, 64), 16);
    history.get_ready(size(SIZE), None, &CancellationToken::new()).await;
    assert_eq!((history.size(), history.reach().levels.blocks), (Some(size(SIZE)), Blocks::ZERO));
    teach(&history, &prompt(1, 64), 16);
    assert_eq!(history.reach().levels.blocks, Blocks::ZERO, "an attempt of the time before has ended");
    teach(&history, &prompt(1, 64), SIZE);
    history.get_ready(size(16), None, &CancellationToken::new()).await;
    assert_eq!(history.reach().levels.blocks, Blocks::new(16), "one of larger blocks changes nothing");
}

/// Its engine restarts: until then the pool has larger blocks only.
#[tokio::test(start_paused = true)]
async fn the_only_worker_with_the_smallest_blocks_was_away_for_a_while_and_everything_was_forgotten() {
    let history = history();
    history.begin(size(SIZE));
    teach(&history, &prompt(1, 64), SIZE);
    for _ in 0..500 {
        history.settle(Some(size(16)));
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(history.reach().levels.blocks, Blocks::new(16));
    for smallest in [Some(size(SIZE)), None, Some(size(16))] {
        history.settle(smallest);
    }
    tokio::time::advance(Duration::from_secs(599)).await;
    history.settle(Some(size(16)));
    assert_eq!(history.size(), Some(size(SIZE)), "it was there in between");
    tokio::time::advance(Duration::from_secs(2)).await;
    history.settle(Some(size(16)));
    assert_eq!((history.size(), history.reach().levels.blocks), (Some(size(16)), Blocks::ZERO));
}

fn kept_in(path: &std::path::Path) -> Arc<HistoryFile> {
    Arc::new(HistoryFile::open(path).unwrap())
}

async fn ready(history: &Arc<PoolHistory>, tokens: u32, file: &Arc<HistoryFile>) {
    history.get_ready(size(tokens), Some(file), &CancellationToken::new()).await;
}

/// A file that knows a prompt in blocks of so many tokens.
async fn file_of(path: &std::path::Path, tokens: u32) {
    let (file, before) = (kept_in(path), history());
    ready(&before, tokens, &file).await;
    teach(&before, &prompt(1, 40), tokens);
    file.save(&[before]);
}

#[tokio::test]
async fn what_was_known_is_known_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.snap");
    file_of(&path, SIZE).await;
    let (file, after) = (kept_in(&path), history());
    file.save(&[Arc::clone(&after)]);
    ready(&after, SIZE, &file).await;
    let asked = hashed(&[prompt(1, 80)], &[SIZE]);
    assert_eq!(after.look_up(&asked).unwrap().total, Tokens::new(40), "an early save left the file alone");
    assert_eq!(after.reach().levels.blocks, Blocks::new(10));
    assert!(after.reach().levels.oldest.is_some());
}

#[tokio::test]
async fn a_router_that_was_stopped_while_it_read_replaced_the_file_by_the_part_that_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.snap");
    file_of(&path, SIZE).await;
    let kept = std::fs::read(&path).unwrap();
    let (file, after, stop) = (kept_in(&path), history(), CancellationToken::new());
    stop.cancel();
    after.get_ready(size(SIZE), Some(&file), &stop).await;
    teach(&after, &prompt(2, 40), SIZE);
    file.save(&[after]);
    assert_eq!(std::fs::read(&path).unwrap(), kept);
}

#[tokio::test]
async fn a_file_of_another_block_size_teaches_nothing_and_waits_for_a_worker_of_its_kind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.snap");
    file_of(&path, SIZE).await;
    let (file, after) = (kept_in(&path), history());
    ready(&after, 16, &file).await;
    assert_eq!(after.reach().levels.blocks, Blocks::ZERO);
    file.save(&[Arc::clone(&after)]);
    ready(&after, SIZE, &file).await;
    assert_eq!(after.reach().levels.blocks, Blocks::new(10), "the worker of smaller blocks came second");
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.snap");
    std::fs::write(&path, b"something else").unwrap();
    let (file, history) = (kept_in(&path), history());
    ready(&history, SIZE, &file).await;
    teach(&history, &prompt(1, 8), SIZE);
    file.save(&[Arc::clone(&history)]);
    let (file, again) = (kept_in(&path), self::history());
    ready(&again, SIZE, &file).await;
    assert_eq!(again.reach().levels.blocks, Blocks::new(2));
}
