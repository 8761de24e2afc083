//! What can be wrong with a trace file, named so that the line can be found and mended.

use std::io;
use std::path::PathBuf;

/// A trace that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("cannot open trace {}: {source}", path.display())]
    Open {
        /// As the caller named it.
        path: PathBuf,
        /// The system's own words.
        source: io::Error,
    },
    /// The bytes cannot be read: a broken gzip stream, text that is not UTF-8, a failing disk.
    #[error("line {line}: cannot be read: {source}; is the file plain JSON lines or gzip of them?")]
    Read {
        /// Counted from 1.
        line: usize,
        /// The system's own words.
        source: io::Error,
    },
    /// One line does not say what a request must say.
    #[error("line {line}: {fault}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        fault: LineFault,
    },
    /// The file holds no request at all.
    #[error(
        "the trace holds no request; a line is {{\"timestamp\": ms, \"input_length\": n, \"output_length\": n, \"hash_ids\": [..]}}"
    )]
    Empty,
}

/// What is wrong with one line.
#[derive(Debug, thiserror::Error)]
pub enum LineFault {
    /// Not JSON, a missing field or a field of another type.
    #[error("not a request of a Mooncake trace: {0}")]
    Json(#[from] serde_json::Error),
    /// The arrival time is negative, no number, or beyond any recording.
    #[error("timestamp is {0}; it must be milliseconds since the start of the trace")]
    Timestamp(f64),
    /// A prompt without tokens.
    #[error("input_length is 0; a prompt has at least one token")]
    EmptyPrompt,
    /// The ids do not cover the prompt.
    #[error(
        "hash_ids has {found} ids, but input_length {input} needs {needed} blocks of {block_size} tokens, \
         the partial last one included"
    )]
    BlockCount {
        /// Ids on the line.
        found: usize,
        /// Ids that the prompt needs.
        needed: u64,
        /// Tokens of the prompt.
        input: u64,
        /// Tokens of a block.
        block_size: u32,
    },
}
