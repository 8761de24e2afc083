//! Lines of the log on their way to standard error, which may be slow or not read at all: whoever serves must not wait for
//! it.
//!
//! Lines are gathered and written by a thread of their own, many at once. Where they come faster than they can be written
//! for long, lines are left out, and a line tells their number.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing_subscriber::fmt::MakeWriter;

/// So many bytes wait at most; at a few hundred a line, these are some ten thousand requests.
const MOST_WAITING: usize = 4 << 20;

/// Lines are gathered for so long: nobody who reads along notices it.
const GATHERED_FOR: Duration = Duration::from_millis(20);

/// How long the end of the process waits for the last lines.
const PATIENCE: Duration = Duration::from_secs(1);

/// Takes lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Background(Arc<Shared>);

/// Writes until it is dropped, and what is left then.
#[derive(Debug)]
pub(crate) struct Writing {
    lines: Background,
    ended: Receiver<()>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    has_some: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    left_out: u64,
    is_over: bool,
}

// === impl Background ===

impl Background {
    /// Begins to write.
    pub(super) fn to(self, output: impl Write + Send + 'static) -> io::Result<Writing> {
        let (ending, ended) = channel();
        let lines = self.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || lines.write(output, &ending))?;
        Ok(Writing { lines: self, ended })
    }

    fn write(&self, mut output: impl Write, ending: &Sender<()>) {
        let mut gathered = Vec::new();
        while let Some(left_out) = self.gather(&mut gathered) {
            // There is nobody to tell that the log cannot be written.
            let _written = output.write_all(&gathered);
            if left_out > 0 {
                // A line as all others are, which is gathered in its turn.
                tracing::warn!(
                    left_out,
                    "lines of the log were left out: it is not read as fast as it is written"
                );
            }
            gathered.clear();
        }
        let _is_awaited = ending.send(());
    }

    /// Waits for lines and takes them, with the number of those that were left out behind them. `None` at the end.
    fn gather(&self, gathered: &mut Vec<u8>) -> Option<u64> {
        let mut waiting = self.0.waiting.lock();
        while waiting.bytes.is_empty() && waiting.left_out == 0 {
            if waiting.is_over {
                return None;
            }
            self.0.has_some.wait(&mut waiting);
        }
        if !waiting.is_over {
            drop(waiting);
            thread::sleep(GATHERED_FOR);
            waiting = self.0.waiting.lock();
        }
        std::mem::swap(&mut waiting.bytes, gathered);
        Some(std::mem::take(&mut waiting.left_out))
    }
}

impl<'a> MakeWriter<'a> for Background {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// Each call is one whole line.
impl Write for &Background {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.0.waiting.lock();
        let is_first = waiting.bytes.is_empty();
        if waiting.bytes.len() + line.len() > MOST_WAITING {
            waiting.left_out += 1;
        } else {
            waiting.bytes.extend_from_slice(line);
        }
        drop(waiting);
        if is_first {
            self.0.has_some.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// === impl Writing ===

impl Drop for Writing {
    /// What cannot be written within a moment is lost with the process.
    fn drop(&mut self) {
        self.lines.0.waiting.lock().is_over = true;
        self.lines.0.has_some.notify_one();
        let _all_written = self.ended.recv_timeout(PATIENCE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was written, and a lock that whoever holds it keeps from being written.
    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn all_lines_are_written_in_their_order_before_the_end() {
        let (lines, output) = (Background::default(), Output::default());
        let writing = lines.clone().to(output.clone()).unwrap();
        let expected: String = (0..1000).map(|number| format!("line {number}\n")).collect();
        for line in expected.split_inclusive('\n') {
            lines.make_writer().write_all(line.as_bytes()).unwrap();
        }
        drop(writing);
        assert_eq!(String::from_utf8(output.0.lock().clone()).unwrap(), expected);
    }

    #[test]
    fn an_output_that_stands_still_holds_up_nobody_and_what_it_cost_is_told() {
        let (lines, output) = (Background::default(), Output::default());
        tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).init();
        let writing = lines.clone().to(output.clone()).unwrap();
        let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
        let standing_still = output.0.lock();
        for _ in 0..3 * MOST_WAITING / line.len() {
            lines.make_writer().write_all(&line).unwrap();
        }
        assert!(lines.0.waiting.lock().bytes.len() <= MOST_WAITING);
        drop(standing_still);
        drop(writing);
        let written = String::from_utf8(output.0.lock().clone()).unwrap();
        let (told, kept): (Vec<_>, Vec<_>) = written.lines().partition(|line| line.contains("left out"));
        let left_out: usize =
            told.iter().map(|line| line.rsplit('=').next().unwrap().parse::<usize>().unwrap()).sum();
        assert!(left_out > 0);
        assert_eq!(kept.len() + left_out, 3 * MOST_WAITING / line.len());
    }
}
