//! The figures of both histories, beside each other.

use std::fmt;

use serde_json::{Value, json};

use super::contestant::Remember;
use super::plain::PlainHistory;
use crate::index::figures::median;
use crate::table::{Table, three_digits};

/// One line of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    LookupHalf,
    LookupP99,
    New,
    NewOnTwo,
    Duplicates,
    DuplicatesOnTwo,
}

/// Figures of prompts of one length, by quantity and contestant, one a repetition.
#[derive(Clone, Debug)]
pub(crate) struct LengthReport {
    pub(crate) blocks: usize,
    figures: [[Vec<f64>; 2]; 6],
    /// Samples of completions that count, and all of them.
    pub(crate) samples: [usize; 2],
}

/// Bytes an entry, by contestant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) allocated: [f64; 2],
    pub(crate) resident: [f64; 2],
}

pub(crate) const NAMES: [&str; 2] = [kvroute_history::History::NAME, PlainHistory::NAME];

const MOST_BYTES: f64 = 14.0;

// === impl Quantity ===

impl Quantity {
    pub(crate) const ALL: [Self; 6] = [
        Self::LookupHalf,
        Self::LookupP99,
        Self::New,
        Self::NewOnTwo,
        Self::Duplicates,
        Self::DuplicatesOnTwo,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::LookupHalf => "lookup p50, us",
            Self::LookupP99 => "lookup p99, us",
            Self::New => "all new, one thread, M blocks/s",
            Self::NewOnTwo => "all new, two threads, M blocks/s",
            Self::Duplicates => "duplicates, one thread, M blocks/s",
            Self::DuplicatesOnTwo => "duplicates, two threads, M blocks/s",
        }
    }

    const fn is_time(self) -> bool {
        matches!(self, Self::LookupHalf | Self::LookupP99)
    }
}

// === impl LengthReport ===

impl LengthReport {
    pub(crate) fn new(blocks: usize) -> Self {
        Self { blocks, figures: Default::default(), samples: [0; 2] }
    }

    pub(crate) fn note(&mut self, quantity: Quantity, contestant: usize, figure: f64) {
        self.figures[quantity as usize][contestant].push(figure);
    }

    pub(crate) fn note_samples(&mut self, counted: usize, taken: usize) {
        self.samples[0] += counted;
        self.samples[1] += taken;
    }

    fn figure(&self, quantity: Quantity, contestant: usize) -> f64 {
        median(&self.figures[quantity as usize][contestant])
    }

    /// What is to be reached, and whether it is.
    fn goal(&self, quantity: Quantity) -> Option<(String, bool)> {
        let own = self.figure(quantity, 0);
        match quantity {
            Quantity::LookupHalf => {
                let most = match self.blocks {
                    ..=4 => 0.15,
                    ..=34 => 0.6,
                    ..=417 => 6.0,
                    _ => 12.0,
                };
                Some((format!("<= {most}"), own <= most))
            }
            Quantity::New => Some((">= 10".to_owned(), own >= 10.0)),
            Quantity::NewOnTwo => {
                let one = self.figure(Quantity::New, 0);
                Some(("one thread".to_owned(), own >= one))
            }
            _ => None,
        }
    }

    fn row(&self, quantity: Quantity) -> Vec<String> {
        let [own, other] = [0, 1].map(|contestant| self.figure(quantity, contestant));
        let times = if quantity.is_time() { other / own } else { own / other };
        let (goal, is_reached) =
            self.goal(quantity).map_or((String::new(), ""), |(goal, yes)| (goal, tick(yes)));
        vec![
            quantity.name().to_owned(),
            three_digits(own),
            three_digits(other),
            three_digits(times),
            goal,
            is_reached.to_owned(),
        ]
    }

    pub(crate) fn as_json(&self) -> Value {
        let of = |contestant: usize| {
            let named = Quantity::ALL.map(|quantity| {
                (quantity.name().to_owned(), json!(self.figures[quantity as usize][contestant]))
            });
            Value::Object(named.into_iter().collect())
        };
        json!({ "blocks": self.blocks, NAMES[0]: of(0), NAMES[1]: of(1), "samples": self.samples })
    }
}

impl fmt::Display for LengthReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [counted, taken] = self.samples;
        let mut table = Table::new(1, ["", NAMES[0], NAMES[1], "x", "goal", ""]);
        Quantity::ALL.into_iter().for_each(|quantity| table.push(self.row(quantity)));
        writeln!(f, "{} blocks; {counted} of {taken} samples of completions undisturbed", self.blocks)?;
        write!(f, "{table}")
    }
}

// === impl Memory ===

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(1, ["bytes an entry", NAMES[0], NAMES[1], "x", "goal", ""]);
        for (name, [own, other]) in [("allocated", self.allocated), ("resident", self.resident)] {
            let is_reached = tick(own <= MOST_BYTES);
            let goal = format!("<= {MOST_BYTES}");
            let cells = [own, other, other / own].map(three_digits);
            table.push(
                [name.to_owned()].into_iter().chain(cells).chain([goal, is_reached.to_owned()]).collect(),
            );
        }
        write!(f, "{table}")
    }
}

const fn tick(is_reached: bool) -> &'static str {
    if is_reached { "✓" } else { "✗" }
}
