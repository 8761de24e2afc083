//! What can be done to an answer.

use std::time::Duration;

/// What becomes of the bytes that a server sends behind a request. Positions count from the first of them, so that 0 is
/// before its status line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Nobody listens.
    Refuse,
    /// The connection is reset behind so many bytes.
    ResetAt(u64),
    /// The connection is closed in order behind so many bytes.
    EarlyEof(u64),
    /// Behind so many bytes nothing more comes, and the connection stays open.
    StallAt(u64),
    /// Nothing comes until another fault is set; then the answer passes as it is.
    Hold,
    /// So many bytes at a time, and then a pause.
    Drip {
        /// Bytes between two pauses.
        bytes: usize,
        /// How long a pause is.
        every: Duration,
    },
    /// Instead of an answer the sending half of the connection is closed, and the other one goes on listening.
    HalfClose,
    /// Instead of an answer something that is no HTTP, and the end of the connection.
    Garbage,
    /// The head announces so many bytes more than there are (fewer if negative), and the connection ends behind them. An
    /// answer without a length passes as it is.
    WrongLength(i64),
    /// A header of so many bytes comes first.
    OversizedHeader(usize),
    /// An informational answer with this status precedes the real one.
    Informational(u16),
    /// Instead of an answer the consent to speak another protocol, and the connection stays open.
    Upgrade,
}
