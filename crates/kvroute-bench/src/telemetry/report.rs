//! The figures of both, beside each other.

use std::fmt;

use serde_json::{Value, json};

use super::contestant::{Answer, Telemetry};
use super::kvroute::Kvroute;
use super::measure::{Cell, Sampled, Task};
use super::plain::Plain;
use super::reasons::{Reasons, Search};
use crate::index::figures::median;
use crate::table::{Table, three_digits};

/// Figures of one cell, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct CellReport {
    cell: Cell,
    chunks: u32,
    clock: Vec<f64>,
    /// Samples that count, and all that were taken.
    samples: [usize; 2],
    /// By task and contestant, one figure a repetition.
    figures: Vec<(Task, [Vec<f64>; 2])>,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
enum Line {
    Task(Task),
    /// What a further chunk of a stream adds.
    Chunk,
    /// A stream without its chunks.
    StreamWithoutChunks,
}

const NAMES: [&str; 2] = [Kvroute::NAME, Plain::NAME];
/// What a whole request may take, the chunks of a stream apart; in nanoseconds.
const GOAL: f64 = 2000.0;

// === impl CellReport ===

impl CellReport {
    pub(crate) fn new(cell: Cell, chunks: u32) -> Self {
        let figures = Task::all(chunks).map(|task| (task, Default::default()));
        Self { cell, chunks, clock: Vec::new(), samples: [0; 2], figures: figures.into() }
    }

    pub(crate) fn note(&mut self, task: Task, contestant: usize, sampled: &Sampled) {
        self.samples[0] += sampled.undisturbed;
        self.samples[1] += sampled.all;
        if let Some((_, figures)) = self.figures.iter_mut().find(|(known, _)| *known == task) {
            figures[contestant].push(sampled.nanoseconds);
        }
    }

    pub(crate) fn note_clock(&mut self, nanoseconds: f64) {
        self.clock.push(nanoseconds);
    }

    pub(crate) fn as_json(&self) -> Value {
        let of = |contestant: usize| {
            let named = self
                .figures
                .iter()
                .map(|(task, figures)| (name_of(Line::Task(*task), self.chunks), json!(figures[contestant])));
            Value::Object(named.collect())
        };
        let by_name = NAMES.iter().enumerate().map(|(number, name)| ((*name).to_owned(), of(number)));
        json!({
            "threads": self.cell.threads,
            "models": self.cell.models,
            "other_work_us": self.cell.other_work.as_micros() as u64,
            "clock_ns": self.clock,
            "ns": by_name.collect::<serde_json::Map<_, _>>(),
        })
    }

    fn other_work(&self) -> String {
        match self.cell.other_work.as_micros() {
            0 => String::new(),
            micros => format!(", {micros} us of other work after each request"),
        }
    }

    fn undisturbed_percent(&self) -> f64 {
        100.0 * self.samples[0] as f64 / self.samples[1] as f64
    }

    fn lines(&self) -> Vec<Line> {
        let mut lines = vec![
            Line::Task(Task::Stages),
            Line::Task(Task::Decision),
            Line::Task(Task::Attempt),
            Line::Task(Task::Answer),
            Line::Task(Task::Request(Answer::Whole)),
            Line::Task(Task::Request(Answer::Stream(self.chunks))),
        ];
        if self.chunks > 1 {
            lines.extend([Line::StreamWithoutChunks, Line::Chunk]);
        }
        lines
    }

    fn row(&self, line: Line) -> Vec<String> {
        let [own, other] = [0, 1].map(|contestant| self.figure(line, contestant));
        let goal = has_goal(line).then_some(GOAL);
        let reached = goal.map(|goal| if own <= goal { "yes" } else { "NO" });
        vec![
            name_of(line, self.chunks),
            three_digits(own),
            three_digits(other),
            three_digits(other / own),
            goal.map(|goal| format!("<= {goal}")).unwrap_or_default(),
            reached.unwrap_or_default().to_owned(),
        ]
    }

    fn figure(&self, line: Line, contestant: usize) -> f64 {
        let all = f64::from(self.chunks);
        let of = |task| self.task(task, contestant);
        let chunk = || {
            let longer = of(Task::Request(Answer::Stream(self.chunks)));
            (longer - of(Task::Request(Answer::Stream(1)))) / (all - 1.0)
        };
        match line {
            Line::Task(task) => of(task),
            Line::Chunk => chunk(),
            Line::StreamWithoutChunks => of(Task::Request(Answer::Stream(self.chunks))) - all * chunk(),
        }
    }

    fn task(&self, task: Task, contestant: usize) -> f64 {
        let known = self.figures.iter().find(|(known, _)| *known == task);
        known.map_or(f64::NAN, |(_, figures)| median(&figures[contestant]))
    }
}

impl fmt::Display for CellReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(1, ["ns a request", NAMES[0], NAMES[1], "x", "goal", "reached"]);
        self.lines().into_iter().for_each(|line| table.push(self.row(line)));
        writeln!(
            f,
            "{}, {}{}, median of {}, {:.0}% of the samples undisturbed; one look at the clock, part of all, takes {} ns",
            counted(self.cell.threads, "thread"),
            counted(self.cell.models, "model"),
            self.other_work(),
            self.clock.len(),
            self.undisturbed_percent(),
            three_digits(median(&self.clock)),
        )?;
        write!(f, "{table}")
    }
}

/// The reasons of cold prompts of some lengths.
pub(crate) fn of_reasons(reasons: &[Reasons]) -> String {
    let lengths = reasons.iter().map(|reasons| reasons.blocks);
    let columns: Vec<String> =
        lengths.flat_map(|blocks| [format!("{blocks} blocks, us"), "ns a block".to_owned()]).collect();
    let header = std::iter::once("reasons of a prompt").chain(columns.iter().map(String::as_str));
    let mut table = Table::new(1, header);
    for search in Search::ALL {
        let figures = reasons.iter().flat_map(|reasons| {
            let nanoseconds = median(reasons.of(search));
            [nanoseconds / 1000.0, nanoseconds / reasons.blocks as f64].map(three_digits)
        });
        table.push(std::iter::once(search.name().to_owned()).chain(figures).collect());
    }
    table.to_string()
}

fn has_goal(line: Line) -> bool {
    matches!(line, Line::Task(Task::Request(Answer::Whole)) | Line::StreamWithoutChunks)
}

fn name_of(line: Line, chunks: u32) -> String {
    match line {
        Line::Task(Task::Stages) => "three stages".to_owned(),
        Line::Task(Task::Decision) => "decision, overhead, shadow".to_owned(),
        Line::Task(Task::Attempt) => "attempt: ledger, report, close".to_owned(),
        Line::Task(Task::Answer) => "whole answer: recorder, load".to_owned(),
        Line::Task(Task::Request(Answer::Whole)) => "all of it, whole answer".to_owned(),
        Line::Task(Task::Request(Answer::Stream(some))) => {
            format!("all of it, stream: {}", counted(some as usize, "chunk"))
        }
        Line::StreamWithoutChunks => format!("the same but for the {chunks} chunks"),
        Line::Chunk => "each chunk".to_owned(),
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
