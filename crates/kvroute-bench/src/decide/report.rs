//! The figures of both, beside each other.

use std::fmt;

use serde_json::{Value, json};

use super::paced::Waits;
use super::steady::{Spread, Stage};
use crate::index::figures::median;
use crate::table::{Table, three_digits};

/// Decisions one after the other.
#[derive(Clone, Debug)]
pub(crate) struct SteadyCell {
    prompt: usize,
    workers: usize,
    in_flight: usize,
    names: Vec<&'static str>,
    /// The most and the least attempts on one worker, by contestant.
    loads: Vec<(usize, usize)>,
    /// By contestant, one entry a repetition, by stage.
    spreads: Vec<Vec<Vec<Spread>>>,
}

/// Decisions at a given rate.
#[derive(Clone, Debug)]
pub(crate) struct PacedCell {
    prompt: usize,
    workers: usize,
    names: Vec<&'static str>,
    /// By contestant, one entry a repetition.
    waits: Vec<Vec<Waits>>,
}

/// No decision in a hundred may take longer, in microseconds.
const LONGEST_P99: f64 = 1000.0;

// === impl SteadyCell ===

impl SteadyCell {
    pub(crate) fn new(prompt: usize, workers: usize, in_flight: usize, names: Vec<&'static str>) -> Self {
        let (loads, spreads) = (vec![(0, 0); names.len()], vec![Vec::new(); names.len()]);
        Self { prompt, workers, in_flight, names, loads, spreads }
    }

    pub(crate) fn note(&mut self, contestant: usize, spreads: &[Spread]) {
        self.spreads[contestant].push(spreads.to_vec());
    }

    pub(crate) fn note_loads(&mut self, contestant: usize, loads: (usize, usize)) {
        self.loads[contestant] = loads;
    }

    pub(crate) fn as_json(&self) -> Value {
        let of = |contestant: usize| {
            let stage = |stage: Stage| {
                let pairs = self.spreads[contestant].iter().map(|spreads| spreads[stage as usize]);
                let pairs = pairs.map(|spread| json!([spread.half, spread.p99])).collect();
                (stage.name().to_owned(), Value::Array(pairs))
            };
            Value::Object(Stage::ALL.into_iter().map(stage).collect())
        };
        let by_name = self.names.iter().enumerate().map(|(number, name)| ((*name).to_owned(), of(number)));
        json!({
            "prompt_blocks": self.prompt,
            "workers": self.workers,
            "in_flight": self.in_flight,
            "half_and_p99_us": by_name.collect::<serde_json::Map<_, _>>(),
        })
    }

    fn figure(&self, contestant: usize, stage: Stage, of: fn(&Spread) -> f64) -> f64 {
        let figures: Vec<f64> =
            self.spreads[contestant].iter().map(|spreads| of(&spreads[stage as usize])).collect();
        median(&figures)
    }

    fn row(&self, stage: Stage) -> Vec<String> {
        let pair = |contestant: usize| {
            [|spread: &Spread| spread.half, |spread: &Spread| spread.p99]
                .map(|of| self.figure(contestant, stage, of))
        };
        let pairs: Vec<[f64; 2]> = (0..self.names.len()).map(pair).collect();
        let own = pairs[0];
        let ratio = |at: usize| pairs.get(1).map_or(f64::NAN, |other| other[at] / own[at]);
        let goal = if stage == Stage::Whole { self.goal() } else { None };
        let figures = pairs.iter().flatten().map(|figure| three_digits(*figure));
        std::iter::once(stage.name().to_owned())
            .chain(figures)
            .chain([three_digits(ratio(0)), three_digits(ratio(1))])
            .chain(verdict(own[0], goal))
            .collect()
    }

    /// What half of the decisions may take, in microseconds.
    fn goal(&self) -> Option<f64> {
        match (self.workers, self.prompt) {
            (1000, _) => Some(60.0),
            (4, ..=64) => Some(10.0),
            (4, ..=512) => Some(20.0),
            _ => None,
        }
    }
}

impl fmt::Display for SteadyCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.names.iter().flat_map(|name| [format!("{name} p50"), format!("{name} p99")]);
        let columns: Vec<String> = columns.collect();
        let header = std::iter::once("us").chain(columns.iter().map(String::as_str));
        let mut table = Table::new(1, header.chain(["x p50", "x p99", "goal p50", "reached"]));
        Stage::ALL.into_iter().for_each(|stage| table.push(self.row(stage)));
        let loads = self.names.iter().zip(&self.loads);
        let loads: Vec<String> =
            loads.map(|(name, (most, least))| format!("{name} {least} to {most}")).collect();
        let Self { prompt, workers, in_flight, .. } = self;
        writeln!(
            f,
            "{prompt} blocks, {workers} workers, {in_flight} attempts in flight (a worker: {}), median of {}",
            loads.join(", "),
            self.spreads[0].len(),
        )?;
        write!(f, "{table}")
    }
}

// === impl PacedCell ===

impl PacedCell {
    pub(crate) fn new(prompt: usize, workers: usize, names: Vec<&'static str>) -> Self {
        let waits = vec![Vec::new(); names.len()];
        Self { prompt, workers, names, waits }
    }

    pub(crate) fn note(&mut self, contestant: usize, waits: Waits) {
        self.waits[contestant].push(waits);
    }

    pub(crate) fn as_json(&self) -> Value {
        let run = |waits: &Waits| {
            let Waits { half, p99, p999, rate, events } = waits;
            json!({ "half_us": half, "p99_us": p99, "p999_us": p999, "rate": rate, "events": events })
        };
        let by_name = self.names.iter().zip(&self.waits);
        let by_name = by_name.map(|(name, runs)| ((*name).to_owned(), runs.iter().map(run).collect()));
        json!({
            "prompt_blocks": self.prompt,
            "workers": self.workers,
            "runs": by_name.collect::<serde_json::Map<_, _>>(),
        })
    }

    fn figure(&self, contestant: usize, of: fn(&Waits) -> f64) -> f64 {
        median(&self.waits[contestant].iter().map(of).collect::<Vec<_>>())
    }

    fn row(&self, contestant: usize) -> Vec<String> {
        let columns: [fn(&Waits) -> f64; 5] = [
            |waits| waits.half,
            |waits| waits.p99,
            |waits| waits.p999,
            |waits| waits.rate,
            |waits| waits.events,
        ];
        let figures = columns.map(|of| self.figure(contestant, of));
        let goal = (contestant == 0).then_some(LONGEST_P99);
        std::iter::once(self.names[contestant].to_owned())
            .chain(figures.map(three_digits))
            .chain(verdict(figures[1], goal))
            .collect()
    }
}

impl fmt::Display for PacedCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["us", "p50", "p99", "p99.9", "decisions/s", "events/s", "goal p99", "reached"];
        let mut table = Table::new(1, header);
        (0..self.names.len()).for_each(|contestant| table.push(self.row(contestant)));
        let Self { prompt, workers, .. } = self;
        writeln!(f, "{prompt} blocks, {workers} workers, two threads, median of {}", self.waits[0].len())?;
        write!(f, "{table}")
    }
}

fn verdict(figure: f64, most: Option<f64>) -> [String; 2] {
    let Some(most) = most else { return [String::new(), String::new()] };
    [format!("<= {most}"), if figure <= most { "yes" } else { "NO" }.to_owned()]
}
