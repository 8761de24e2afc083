//! What a history costs a whole router: requests a second with it and without it.
//!
//! Two routers with the same workers, one that remembers and one that does not, in this process. They serve in turn, one short
//! window each, first one and then the other first, and each pair of windows gives one ratio. What else the machine does falls
//! on both. Client and workers are part of the figures, as cheap as they can be made; what the process worked for a request is
//! told beside, since on a machine with other work the clock tells more of that.

mod client;
mod fleet;
mod prompts;
mod report;

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::machine;
use client::Connections;
use fleet::{Fleet, Routers};
use prompts::Prompts;
use report::{CellReport, Summary, Window};

/// What `--router` takes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct RouterArgs {
    /// Measures what the history costs a whole router instead.
    #[arg(long)]
    pub(crate) router: bool,
    /// Workers of the router.
    #[arg(long, value_delimiter = ',', default_value = "26,1000")]
    workers: Vec<usize>,
    /// Requests that are under way at once.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32")]
    concurrency: Vec<usize>,
    /// Pairs of windows of each cell.
    #[arg(long, default_value_t = 15)]
    pairs: usize,
    /// Length of a window in milliseconds.
    #[arg(long, default_value_t = 150)]
    window: u64,
}

/// What is sent again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// Few prompts, all known after the first round.
    Duplicates,
    /// Every prompt is new from its first block on.
    AllNew,
}

/// One cell of the comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) workers: usize,
    pub(crate) traffic: Traffic,
    pub(crate) blocks: usize,
    pub(crate) concurrency: usize,
}

// === impl Traffic ===

impl Traffic {
    const ALL: [Self; 2] = [Self::Duplicates, Self::AllNew];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Duplicates => "duplicates",
            Self::AllNew => "all new",
        }
    }
}

/// Runs every cell and gives what was measured as JSON.
pub(crate) fn run(args: &RouterArgs, lengths: &[usize]) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(all_cells(args, lengths))
}

async fn all_cells(args: &RouterArgs, lengths: &[usize]) -> Result<Value> {
    let mut summary = Summary::default();
    println!("{}", report::header());
    for &workers in &args.workers {
        let fleet = Fleet::start(workers).await?;
        let routers = Routers::start(&fleet).await?;
        for traffic in Traffic::ALL {
            for &blocks in lengths {
                for &concurrency in &args.concurrency {
                    let cell = Cell { workers, traffic, blocks, concurrency };
                    let report = measured(args, &routers, cell).await?;
                    println!("{report}");
                    summary.note(report);
                }
            }
        }
        routers.stop().await;
    }
    println!("\nload average {}\n{summary}", machine::load_average());
    Ok(summary.as_json())
}

async fn measured(args: &RouterArgs, routers: &Routers, cell: Cell) -> Result<CellReport> {
    let prompts = Prompts::new(cell.traffic, cell.blocks);
    let mut connections = Vec::new();
    for address in routers.addresses() {
        let mut to_router = Connections::open(address, cell.concurrency).await?;
        // Both know the duplicates before anything is timed.
        to_router.send_each(&prompts).await?;
        connections.push(to_router);
    }
    let mut report = CellReport::new(cell);
    for pair in 0..args.pairs.max(1) {
        let mut windows = [Window::default(); 2];
        for router in [pair % 2, 1 - pair % 2] {
            windows[router] =
                connections[router].window(&prompts, Duration::from_millis(args.window)).await?;
        }
        report.note(windows);
    }
    Ok(report)
}
