//! Reader of recorded agent sessions: a JSON object a line, as made from the traces of kv-cache-tester.
//!
//! A line names its blocks by ids that are chained, cover full blocks only, and mean something within their session
//! alone; here they are made different for every session, since equal ids would claim a sharing that never was. In
//! reality sessions of one client do share their tools and system prompt, of which the trace tells the length only:
//! [`SessionOptions::shared_preamble`] makes it the same for all.

mod line;

use std::io::BufRead;
use std::path::Path;

use kvroute_core::{BlockSize, Tokens};

use crate::lines::{each_line, open};
use crate::{LineFault, Session, SessionTrace, TraceError};
use line::{EXAMPLE, Line};

/// Which sessions are read, and what they share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// Gives all sessions the same tools and system prompt, as far as each session's reaches; their sub-agents share
    /// one of their own.
    pub shared_preamble: bool,
    /// At most so many sessions.
    pub max_sessions: Option<usize>,
    /// Leaves out every session with a prompt longer than this. None is shortened: a cut prompt would be another one.
    pub max_isl: Option<Tokens>,
}

/// Reads a trace file, plain or gzip (told apart by content, not by name).
///
/// # Errors
/// A file that cannot be opened, and what [`read_sessions`] refuses.
pub fn read_sessions_file(path: &Path, options: &SessionOptions) -> Result<SessionTrace, TraceError> {
    read_sessions(open(path)?, options)
}

/// Reads plain JSON lines. Blank lines are skipped, unknown fields ignored, an `out` of 0 is read as 1 (an engine
/// answers with one token at least).
///
/// # Errors
/// A line that is no session, or does not say what its requests must say; a trace without any session that may be
/// read.
pub fn read_sessions(reader: impl BufRead, options: &SessionOptions) -> Result<SessionTrace, TraceError> {
    let mut trace = SessionTrace { block_size: BlockSize::DEFAULT, sessions: Vec::new(), dropped: 0 };
    if options.max_sessions != Some(0) {
        each_line(reader, |text| {
            take(&mut trace, Line::parse(text)?, options)?;
            Ok(options.max_sessions.is_none_or(|most| trace.sessions.len() < most))
        })?;
    }
    if !trace.sessions.is_empty() {
        return Ok(trace);
    }
    match options.max_isl {
        Some(longest) if trace.dropped > 0 => Err(TraceError::AllDropped { dropped: trace.dropped, longest }),
        _ => Err(TraceError::Empty { example: EXAMPLE }),
    }
}

fn take(trace: &mut SessionTrace, line: Line, options: &SessionOptions) -> Result<(), LineFault> {
    let number = trace.sessions.len() + trace.dropped;
    let expected = (number > 0).then_some(trace.block_size);
    trace.block_size = line.block_size(expected)?;
    let session = line.session(number, options.shared_preamble)?;
    if is_too_long(&session, options.max_isl) {
        trace.dropped += 1;
    } else {
        trace.sessions.push(session);
    }
    Ok(())
}

fn is_too_long(session: &Session, longest: Option<Tokens>) -> bool {
    longest.is_some_and(|longest| session.all_requests().any(|request| request.input > longest))
}

#[cfg(test)]
mod tests;
