//! What can be wrong with a trace file, named so that the line can be found and mended.

use std::io;
use std::path::PathBuf;

use kvroute_core::Tokens;

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
    #[error("the trace holds no request; a line is {example}")]
    Empty {
        /// What a line looks like.
        example: &'static str,
    },
    /// Every session has a prompt that is longer than was asked for.
    #[error("all {dropped} sessions have prompts of more than {longest} tokens; allow longer ones")]
    AllDropped {
        /// How many there are.
        dropped: usize,
        /// The longest that was asked for.
        longest: Tokens,
    },
}

/// What is wrong with one line.
#[derive(Debug, thiserror::Error)]
pub enum LineFault {
    /// Not JSON, a missing field or a field of another type.
    #[error("not {expected}: {source}")]
    Json {
        /// What a line should be.
        expected: &'static str,
        /// What the parser says.
        source: serde_json::Error,
    },
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
    /// A session with a block size of zero, or another one than the lines before.
    #[error("block_size is {found}; it must be {expected}")]
    BlockSize {
        /// On the line.
        found: u32,
        /// What it must be.
        expected: String,
    },
    /// Ids whose meaning outside of the session is not known.
    #[error(
        "hash_id_scope is `{0}`; only `local`, ids that mean something within their session, is understood"
    )]
    Scope(String),
    /// A session without requests.
    #[error("requests is empty; take the session out of the trace")]
    NoRequests,
    /// Something is wrong with one request of a session.
    #[error("{place}: {fault}")]
    Request {
        /// Which one.
        place: String,
        /// What is wrong with it.
        fault: RequestFault,
    },
}

/// What is wrong with one request of a session, or with one of its sub-agents.
#[derive(Debug, thiserror::Error)]
pub enum RequestFault {
    /// A field that must be there.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// Neither a request nor a sub-agent.
    #[error("type is `{0}`; it must be n, s or subagent")]
    Kind(String),
    /// A sub-agent of a sub-agent.
    #[error("a sub-agent inside a sub-agent is not understood; take the session out of the trace")]
    Nested,
    /// A time that is negative, no number, or beyond any recording.
    #[error("{field} is {value}; it must be a number of seconds from 0 on")]
    Seconds {
        /// Its name.
        field: &'static str,
        /// On the line.
        value: f64,
    },
    /// A prompt without tokens, or with more than any model takes.
    #[error("in is {found}; a prompt has 1 to {most} tokens")]
    Input {
        /// On the line.
        found: u64,
        /// The longest prompt.
        most: u64,
    },
    /// The ids do not cover the prompt's full blocks.
    #[error(
        "hash_runs has {found} ids, but a prompt of {input} tokens has {needed} full blocks of {block_size} tokens, \
         the partial last one not counted"
    )]
    BlockCount {
        /// Ids in all runs.
        found: u64,
        /// Full blocks.
        needed: u64,
        /// Tokens of the prompt.
        input: u64,
        /// Tokens of a block.
        block_size: u32,
    },
    /// A local id that leaves no room to tell sessions apart.
    #[error("hash_runs has id {0}; ids of a session are below 4294967296")]
    Id(u64),
}
