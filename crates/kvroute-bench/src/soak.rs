//! A long life of one index: far more distinct blocks than any cache holds, engines that clear and leave, and a budget.
//!
//! What must be seen: memory that no longer grows once the caches are full, and never a byte above the budget, not even
//! when the engines hold more than it has room for.

mod fleet;

use std::time::Duration;

use anyhow::{Result, ensure};
use kvroute_index::{Applied, IndexOptions, ReportedIndex};

use crate::machine;
use crate::stopwatch::Stopwatch;
use crate::table::{Table, three_digits};
use fleet::Fleet;

/// Memory over time: millions of distinct blocks through one index with a budget.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct SoakArgs {
    /// Blocks that the engines hold together once their caches are full.
    #[arg(long, default_value_t = 10_000_000)]
    blocks: usize,
    /// Budget of the index.
    #[arg(long, default_value = "512MiB", value_parser = parse_bytes)]
    bytes: usize,
    /// Engines.
    #[arg(long, default_value_t = 64)]
    ranks: usize,
    /// How many times so many blocks are stored anew, once the caches are full and again once they are too large.
    #[arg(long, default_value_t = 4)]
    turns: usize,
    /// Seed of the workload.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

/// Rows while the caches are replaced once.
const ROWS_A_TURN: usize = 2;
/// How many times more the engines hold in the end.
const OVERLOAD: usize = 4;

struct Soak {
    fleet: Fleet,
    index: ReportedIndex,
    budget: usize,
    highest: usize,
    evicted: u64,
    table: Table,
}

/// Fills the caches, replaces them some times over, and then lets the engines hold a multiple of that.
pub(crate) fn run(args: &SoakArgs) -> Result<()> {
    println!("{}", machine::describe());
    println!("\n{} ranks, {} blocks, budget {} MiB", args.ranks, args.blocks, args.bytes >> 20);
    let mut soak = Soak::new(args);
    let part = args.blocks / ROWS_A_TURN;
    for turn in 0..=args.turns {
        let name = if turn == 0 { "caches fill" } else { "caches are replaced" };
        for _ in 0..ROWS_A_TURN {
            soak.store(name, part)?;
        }
    }
    soak.fleet.enlarge(OVERLOAD);
    for _ in 0..ROWS_A_TURN * (OVERLOAD - 1 + args.turns) {
        soak.store("caches are larger", part)?;
    }
    soak.fleet.leave(&soak.index);
    soak.row("all have left", 0, Duration::ZERO);
    print!("{}", soak.table);
    println!("highest index bytes: {} of {} MiB", soak.highest >> 20, soak.budget >> 20);
    Ok(())
}

// === impl Soak ===

impl Soak {
    fn new(args: &SoakArgs) -> Self {
        let header = [
            "",
            "stored, M",
            "M blocks/s",
            "engines hold, M",
            "index holds, M",
            "evicted, M",
            "index, MiB",
            "bytes an entry",
            "resident, MiB",
        ];
        Self {
            fleet: Fleet::new(args.ranks, args.blocks / args.ranks, args.seed),
            index: ReportedIndex::new(IndexOptions { bytes: args.bytes, ..IndexOptions::default() }),
            budget: args.bytes,
            highest: 0,
            evicted: 0,
            table: Table::new(1, header),
        }
    }

    /// Stores so many blocks, and looks at the budget after every event.
    fn store(&mut self, name: &str, blocks: usize) -> Result<()> {
        let watch = Stopwatch::start();
        let mut applied = Applied::default();
        let end = self.fleet.stored() + blocks;
        while self.fleet.stored() < end {
            applied += self.fleet.step(&self.index);
            self.highest = self.highest.max(self.index.bytes());
        }
        let time = watch.worked();
        self.evicted += applied.evicted;
        self.row(name, blocks, time);
        ensure!(self.highest <= self.budget, "{} bytes, above the budget", self.highest);
        ensure!(
            applied.orphaned + applied.conflicting + applied.rejected == 0 || self.evicted > 0,
            "{applied:?}"
        );
        let (held, index_holds) = (self.fleet.held(), self.fleet.held_by(&self.index));
        ensure!(
            held == index_holds || self.evicted > 0,
            "the engines hold {held} blocks, the index says {index_holds}"
        );
        Ok(())
    }

    fn row(&mut self, name: &str, blocks: usize, time: Duration) {
        let million = |count: usize| format!("{:.2}", count as f64 / 1e6);
        let mebibytes = |bytes: u64| (bytes >> 20).to_string();
        let index_holds = self.fleet.held_by(&self.index);
        self.table.push(vec![
            name.to_owned(),
            million(self.fleet.stored()),
            three_digits(blocks as f64 / time.as_secs_f64() / 1e6),
            million(self.fleet.held()),
            million(index_holds),
            million(self.evicted as usize),
            mebibytes(self.index.bytes() as u64),
            three_digits(if index_holds == 0 {
                f64::NAN
            } else {
                self.index.bytes() as f64 / index_holds as f64
            }),
            machine::resident_bytes().map_or_else(|| "?".to_owned(), mebibytes),
        ]);
    }
}

/// `512MiB`, `1GiB`, or a plain number.
fn parse_bytes(text: &str) -> Result<usize, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    let number: usize =
        number.trim().parse().map_err(|_| "a size is a number with KiB, MiB or GiB".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("512MiB"), Ok(512 << 20));
        assert_eq!(parse_bytes("42"), Ok(42));
        assert!(parse_bytes("12 apples").is_err());
    }

    #[test]
    fn a_small_soak_stays_within_its_budget() {
        let bytes = 2 << 20;
        run(&SoakArgs { blocks: 20_000, bytes, ranks: 4, turns: 2, seed: 1 }).unwrap();
    }
}
