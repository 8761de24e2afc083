//! What is seen while a demo runs: redrawn in place on a terminal, a line now and then otherwise.
//!
//! It writes to standard error, so that the result on standard output can be piped in either case.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;

use super::outcome::Outcome;
use super::table;

/// Draws the state of the demo.
#[derive(Debug)]
pub(crate) struct View {
    is_terminal: bool,
    lines_drawn: usize,
    /// When the next plain line is due, from the start of its run.
    next_line: Duration,
}

const BAR_WIDTH: usize = 40;
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

// === impl View ===

impl View {
    pub(crate) fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), lines_drawn: 0, next_line: PLAIN_INTERVAL }
    }

    /// How often a new state is worth drawing.
    pub(crate) const fn interval(&self) -> Duration {
        if self.is_terminal { Duration::from_millis(200) } else { Duration::from_secs(1) }
    }

    /// A line that stays.
    pub(crate) fn announce(&mut self, line: &str) {
        self.clear();
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    /// The finished runs and the present one, which has sent its share of `requests`.
    pub(crate) fn draw(&mut self, outcomes: &[Outcome], finished: u64, requests: usize) {
        let Some(present) = outcomes.last() else { return };
        if self.is_terminal {
            let text = format!("{}\n{}", bar(present, finished, requests), table::render(outcomes));
            self.redraw(&text);
        } else if present.elapsed >= self.next_line {
            self.next_line = present.elapsed + PLAIN_INTERVAL;
            self.announce(&plain_line(present, finished, requests));
        }
    }

    /// Ends a run: what was drawn goes, its place is the next run's or the result's.
    pub(crate) fn end_run(&mut self) {
        self.clear();
        self.next_line = PLAIN_INTERVAL;
    }

    fn redraw(&mut self, text: &str) {
        let up = self.lines_drawn;
        let erase = if up > 0 { format!("\x1b[{up}A\x1b[J") } else { String::new() };
        let mut stderr = io::stderr().lock();
        let _ = stderr.write_all(format!("{erase}{text}").as_bytes());
        let _ = stderr.flush();
        self.lines_drawn = text.lines().count();
    }

    fn clear(&mut self) {
        if self.lines_drawn > 0 {
            self.redraw("");
        }
    }
}

fn bar(present: &Outcome, finished: u64, requests: usize) -> String {
    let filled = (finished as usize * BAR_WIDTH).checked_div(requests).unwrap_or_default().min(BAR_WIDTH);
    let mut line = format!("{:<14} ", present.policy);
    line.extend(std::iter::repeat_n('█', filled));
    line.extend(std::iter::repeat_n('░', BAR_WIDTH - filled));
    let _ = write!(line, " {finished}/{requests} {:.0} s", present.elapsed.as_secs_f64());
    line
}

fn plain_line(present: &Outcome, finished: u64, requests: usize) -> String {
    let seconds = present.elapsed.as_secs();
    format!(
        "{}: {finished} of {requests} requests after {seconds} s, {} errors",
        present.policy, present.errors
    )
}
