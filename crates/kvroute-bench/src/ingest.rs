//! The way of KV events: bytes of an event socket, messages, events, blocks in the index.

mod stream;

use std::time::Duration;

use anyhow::{Result, ensure};
use kvroute_core::{EventBatch, Removal};
use kvroute_engine::events::EventDecoder;
use kvroute_index::{Applied, IndexOptions, RankSlot, ReportedIndex};
use kvroute_zmtp::Message;
use tokio::runtime::Runtime;

use crate::machine;
use crate::stopwatch::Stopwatch;
use crate::table::{Table, three_digits};
use stream::{Burst, Engine};

/// Event messages as vLLM sends them, from the bytes of a socket into the index, on one thread.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct IngestArgs {
    /// Engines whose events arrive in turn.
    #[arg(long, default_value_t = 8)]
    ranks: usize,
    /// Blocks that each engine stores.
    #[arg(long, default_value_t = 100_000)]
    blocks: usize,
    /// Blocks that fit into each engine.
    #[arg(long, default_value_t = 50_000)]
    capacity: usize,
    /// Repetitions; the table shows their fastest one and the median of the rates.
    #[arg(long, default_value_t = 5)]
    reps: usize,
}

/// What the router is to take in, on one thread.
const GOAL: f64 = 2.0;
/// Messages that are read, decoded and applied before the next ones: few enough to stay in the processor's cache.
const BURST: usize = 64;

/// Time of each stage, and what went through.
#[derive(Clone, Copy, Debug, Default)]
struct Stages {
    framing: Duration,
    decoding: Duration,
    applying: Duration,
    stored: usize,
    removed: usize,
}

/// One rank: its stream, cut in two where its cache is full.
struct Rank {
    slot: RankSlot,
    /// Bursts while the cache fills, and those after that.
    halves: [Vec<Burst>; 2],
}

// === impl Stages ===

impl Stages {
    fn total(&self) -> Duration {
        self.framing + self.decoding + self.applying
    }

    /// Million stored blocks in a second.
    fn rate(&self) -> f64 {
        self.stored as f64 / self.total().as_secs_f64() / 1e6
    }

    fn nanoseconds_a_block(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e9 / self.stored as f64
    }
}

/// Measures both halves of a cache's life: while it fills, and when every new block replaces another one.
pub(crate) fn run(args: &IngestArgs) -> Result<()> {
    println!("{}", machine::describe());
    let ranks: Vec<Rank> = (0..args.ranks).map(|rank| Rank::new(rank, args)).collect();
    let mut filling = Vec::new();
    let mut full = Vec::new();
    for _ in 0..args.reps.max(1) {
        let (first, second) = one_repetition(&ranks)?;
        filling.push(first);
        full.push(second);
    }
    let header =
        ["ns a stored block", "frames", "decode", "apply", "all", "M blocks/s", "median", "goal", "reached"];
    let mut table = Table::new(1, header);
    table.push(row("cache fills", &mut filling));
    table.push(row("cache is full, each block evicts one", &mut full));
    println!("\n{} ranks, {} blocks stored by each, 16 tokens a block, one thread", args.ranks, args.blocks);
    println!("{table}");
    Ok(())
}

fn row(name: &str, runs: &mut [Stages]) -> Vec<String> {
    runs.sort_by_key(Stages::total);
    let (best, middle) = (runs[0], runs[runs.len() / 2]);
    let stage = |time| three_digits(best.nanoseconds_a_block(time));
    let reached = if middle.rate() >= GOAL { "yes" } else { "NO" };
    vec![
        name.to_owned(),
        stage(best.framing),
        stage(best.decoding),
        stage(best.applying),
        stage(best.total()),
        three_digits(best.rate()),
        three_digits(middle.rate()),
        format!(">= {GOAL}"),
        reached.to_owned(),
    ]
}

// === impl Rank ===

impl Rank {
    fn new(number: usize, args: &IngestArgs) -> Self {
        let mut engine = Engine::new(number as u64, args.capacity);
        let mut halves = [Vec::new(), Vec::new()];
        let mut stored = 0;
        while stored < args.blocks {
            let burst = engine.burst(BURST);
            stored += burst.stored;
            halves[usize::from(burst.removed > 0)].push(burst);
        }
        Self { slot: RankSlot::new(number as u32), halves }
    }
}

fn one_repetition(ranks: &[Rank]) -> Result<(Stages, Stages)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let index = ReportedIndex::new(IndexOptions::default());
    let mut decoders: Vec<EventDecoder> = ranks.iter().map(|_| EventDecoder::default()).collect();
    let mut halves = [Stages::default(); 2];
    for (half, stages) in halves.iter_mut().enumerate() {
        let rounds = ranks.iter().map(|rank| rank.halves[half].len()).max().unwrap_or(0);
        for round in 0..rounds {
            for (rank, decoder) in ranks.iter().zip(&mut decoders) {
                if let Some(burst) = rank.halves[half].get(round) {
                    take_in(&runtime, &index, rank.slot, decoder, burst, stages)?;
                }
            }
        }
    }
    Ok((halves[0], halves[1]))
}

fn take_in(
    runtime: &Runtime,
    index: &ReportedIndex,
    slot: RankSlot,
    decoder: &mut EventDecoder,
    burst: &Burst,
    stages: &mut Stages,
) -> Result<()> {
    let watch = Stopwatch::start();
    let messages = messages(runtime, &burst.bytes);
    stages.framing += watch.worked();
    ensure!(messages.len() == burst.messages, "{} of {} messages arrived", messages.len(), burst.messages);

    let watch = Stopwatch::start();
    let batches: Vec<EventBatch> =
        messages.iter().filter_map(|message| message.last()).map(|payload| decoder.decode(payload)).collect();
    stages.decoding += watch.worked();

    let watch = Stopwatch::start();
    let mut applied = Applied::default();
    let mut gone = 0;
    for event in batches.iter().flat_map(|batch| &batch.events) {
        applied += index.apply(slot, event, &mut |_: Removal| gone += 1);
    }
    stages.applying += watch.worked();
    ensure!(
        applied.stored == burst.stored as u64 && applied.removed == burst.removed as u64,
        "{} stored and {} removed, but the index says {applied:?}",
        burst.stored,
        burst.removed
    );
    stages.stored += burst.stored;
    stages.removed += burst.removed;
    Ok(())
}

/// Reads a connection to its end.
fn messages(runtime: &Runtime, bytes: &[u8]) -> Vec<Message> {
    /// The socket's kind, as the listener numbers it.
    const SUBSCRIBER: u8 = 1;
    let stream = tokio::io::join(bytes, tokio::io::sink());
    runtime.block_on(kvroute_zmtp::fuzz::listen(stream, SUBSCRIBER)).messages
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every burst is compared with what the index says of it.
    #[test]
    fn what_engines_store_and_remove_arrives_in_the_index() {
        run(&IngestArgs { ranks: 2, blocks: 5000, capacity: 2000, reps: 1 }).unwrap();
    }
}
