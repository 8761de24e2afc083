//! Entries of the fuzzer to what strangers may write and only this crate reads. Not part of the API.

use http::HeaderMap;

use crate::config::WorkerConfig;
use crate::discovery::read_file;
use crate::error::RouteError;
use crate::hints::Hints;

/// What the headers of a request ask of the selection.
#[derive(Clone, Debug, PartialEq)]
pub struct ToldHints {
    /// Whether they name a session.
    pub has_session: bool,
    /// Who goes first.
    pub priority: i32,
    /// The worker that they name.
    pub pin: Option<String>,
    /// Whether they bring weights of their own.
    pub has_overrides: bool,
}

/// Reads the headers of one request.
///
/// # Errors
/// Values that a trusted caller did not mean so.
pub fn read_hints(headers: &HeaderMap, is_trusted: bool) -> Result<ToldHints, RouteError> {
    let hints = Hints::read(headers, is_trusted)?;
    Ok(ToldHints {
        has_session: hints.session.is_some(),
        priority: hints.priority,
        has_overrides: hints.overrides != Default::default(),
        pin: hints.pin.map(|pin| pin.worker),
    })
}

/// Reads the file of a discovery.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn read_worker_file(content: &[u8]) -> Result<Vec<WorkerConfig>, String> {
    read_file(content)
}
