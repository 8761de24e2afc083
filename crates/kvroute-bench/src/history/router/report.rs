//! Ratios of paired windows.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::Cell;
use crate::index::figures::median;
use crate::table::three_digits;

/// What was served in a window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(crate) requests: usize,
    pub(crate) took: Duration,
    /// By all threads of the process: router, workers and client.
    pub(crate) worked: Duration,
}

/// The windows of one cell, without and with a history.
#[derive(Clone, Debug)]
pub(crate) struct CellReport {
    cell: Cell,
    pairs: Vec<[Window; 2]>,
}

/// All cells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    cells: Vec<CellReport>,
}

/// What the median of all ratios must reach, and what each cell must.
const POOLED: f64 = 0.98;
const EACH: f64 = 0.95;

pub(crate) const fn header() -> &'static str {
    "workers  traffic     blocks  at once   requests/s: without     with   ratio   with work   CPU us: without     with"
}

// === impl Window ===

impl Window {
    fn a_second(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }

    fn micros_each(&self) -> f64 {
        self.worked.as_secs_f64() * 1e6 / self.requests as f64
    }
}

// === impl CellReport ===

impl CellReport {
    pub(crate) const fn new(cell: Cell) -> Self {
        Self { cell, pairs: Vec::new() }
    }

    pub(crate) fn note(&mut self, windows: [Window; 2]) {
        self.pairs.push(windows);
    }

    /// Requests a second with a history, as a share of those without it, pair by pair.
    fn ratios(&self) -> Vec<f64> {
        self.pairs.iter().map(|[without, with]| with.a_second() / without.a_second()).collect()
    }

    /// The same by what the process worked instead of the clock.
    fn work_ratios(&self) -> Vec<f64> {
        self.pairs.iter().map(|[without, with]| without.micros_each() / with.micros_each()).collect()
    }

    fn median_of(&self, figure: impl Fn(&[Window; 2]) -> f64) -> f64 {
        median(&self.pairs.iter().map(figure).collect::<Vec<_>>())
    }

    fn as_json(&self) -> Value {
        let Cell { workers, traffic, blocks, concurrency } = self.cell;
        let rates = [0, 1].map(|router| self.median_of(|pair| pair[router].a_second()));
        let work = [0, 1].map(|router| self.median_of(|pair| pair[router].micros_each()));
        json!({
            "workers": workers,
            "traffic": traffic.name(),
            "blocks": blocks,
            "concurrency": concurrency,
            "ratios": self.ratios(),
            "work_ratios": self.work_ratios(),
            "requests_a_second": rates,
            "cpu_us": work,
        })
    }
}

impl fmt::Display for CellReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { workers, traffic, blocks, concurrency } = self.cell;
        let rate = |router: usize| three_digits(self.median_of(|pair| pair[router].a_second()));
        let work = |router: usize| three_digits(self.median_of(|pair| pair[router].micros_each()));
        write!(
            f,
            "{workers:<7}  {:<10}  {blocks:>6}  {concurrency:>7}  {:>20}  {:>8}  {:>6.3}  {:>10.3}  {:>16}  {:>8}",
            traffic.name(),
            rate(0),
            rate(1),
            median(&self.ratios()),
            median(&self.work_ratios()),
            work(0),
            work(1),
        )
    }
}

// === impl Summary ===

impl Summary {
    pub(crate) fn note(&mut self, report: CellReport) {
        self.cells.push(report);
    }

    pub(crate) fn as_json(&self) -> Value {
        self.cells.iter().map(CellReport::as_json).collect()
    }

    /// The median of the ratios of all pairs, and the lowest median of a cell.
    fn pooled(&self, ratios: impl Fn(&CellReport) -> Vec<f64>) -> [f64; 2] {
        let all: Vec<f64> = self.cells.iter().flat_map(&ratios).collect();
        let lowest = self.cells.iter().map(|cell| median(&ratios(cell))).fold(f64::INFINITY, f64::min);
        [median(&all), lowest]
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tick = |is_reached: bool| if is_reached { "✓" } else { "✗" };
        for (name, [all, lowest]) in [
            ("by the clock", self.pooled(CellReport::ratios)),
            ("by work", self.pooled(CellReport::work_ratios)),
        ] {
            writeln!(
                f,
                "{name}: median of all pairs {all:.3} (>= {POOLED} {}), lowest cell {lowest:.3} (>= {EACH} {})",
                tick(all >= POOLED),
                tick(lowest >= EACH)
            )?;
        }
        Ok(())
    }
}
