//! Ten thousand streams at once: what the router adds to them, and what they take of it.
//!
//! Engines, router and client are processes of their own, as they are in service, and all of them share the machine. The
//! engines are slow on purpose: what is to be seen is how many streams are open, not how fast tokens can be made. The same
//! load goes to the engines directly first, so that what the client and the engines need themselves is known.

mod client;
mod fleet;
mod record;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::machine;
use crate::table::{Table, three_digits};
use client::Load;
use fleet::Fleet;
use record::Record;

/// Holds thousands of streams open through the router and tells added latency, memory and errors.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct StreamsArgs {
    /// Streams that are open at once.
    #[arg(long, default_value_t = 10_000)]
    streams: usize,
    /// Simulated engines.
    #[arg(long, default_value_t = 4)]
    engines: usize,
    /// Tokens of each answer, one a second.
    #[arg(long, default_value_t = 30)]
    tokens: u32,
    /// Streams that are begun a second.
    #[arg(long, default_value_t = 500)]
    rate: usize,
    /// Policy of the router.
    #[arg(long, default_value = "kv")]
    policy: String,
    /// The program that is measured.
    #[arg(long, default_value = "../../target/release/kvroute")]
    kvroute: PathBuf,
}

/// Descriptors that a stream takes in the process that has most of them, the router, and some for all else.
const DESCRIPTORS_A_STREAM: u64 = 2;
const OTHER_DESCRIPTORS: u64 = 500;

/// Runs both loads and prints what came of them.
pub(crate) fn run(args: &StreamsArgs) -> Result<()> {
    check_descriptors(args.streams)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(measure(args))
}

async fn measure(args: &StreamsArgs) -> Result<()> {
    let load = Load { streams: args.streams, tokens: args.tokens, rate: args.rate };
    let fleet = Fleet::start(&args.kvroute, args.engines, &args.policy).await?;
    let direct = client::run(&load, fleet.engines()).await?;
    let before = fleet.router_memory()?;
    let router = [fleet.router()];
    let (routed, most) = tokio::join!(client::run(&load, &router), fleet.most_memory(load.duration()));
    let routed = routed?;
    fleet.until_at_rest().await?;
    println!("{}", machine::describe());
    println!("{} streams of {} tokens, one a second, {} engines\n", args.streams, args.tokens, args.engines);
    println!("{}", table(&direct, &routed));
    let mib = |bytes: u64| three_digits(bytes as f64 / f64::from(1 << 20));
    let a_stream = most.saturating_sub(before) as f64 / args.streams as f64 / 1024.0;
    println!(
        "router's resident memory, MiB: {} before, {} at most, {} at rest; {} KiB a stream",
        mib(before),
        mib(most),
        mib(fleet.router_memory()?),
        three_digits(a_stream),
    );
    for (name, record) in [("direct", &direct), ("router", &routed)] {
        println!("{name}: {}", record.errors());
    }
    println!("load average {}", machine::load_average());
    fleet.stop()
}

fn table(direct: &Record, routed: &Record) -> Table {
    let mut table =
        Table::new(1, ["milliseconds", "direct p50", "p99", "router p50", "p99", "added p50", "p99"]);
    for (name, figures) in [
        ("first token", [direct.first_token(), routed.first_token()]),
        ("between tokens", [direct.between_tokens(), routed.between_tokens()]),
    ] {
        let [[d50, d99], [r50, r99]] = figures.map(|figures| figures.map(|seconds| seconds * 1e3));
        let cells = [d50, d99, r50, r99, r50 - d50, r99 - d99].map(three_digits);
        table.push(std::iter::once(name.to_owned()).chain(cells).collect());
    }
    table
}

/// A process that runs out of descriptors would measure that.
fn check_descriptors(streams: usize) -> Result<()> {
    let wanted = streams as u64 * DESCRIPTORS_A_STREAM + OTHER_DESCRIPTORS;
    let allowed = machine::open_files_limit().unwrap_or(u64::MAX);
    ensure!(
        allowed >= wanted,
        "{streams} streams take {wanted} file descriptors and {allowed} are allowed; run `ulimit -n {wanted}` first"
    );
    Ok(())
}

// === impl Load ===

impl Load {
    /// About how long it takes, to the start of the last stream and its end.
    fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.streams as f64 / self.rate as f64 + f64::from(self.tokens))
    }
}
