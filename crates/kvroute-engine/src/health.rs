//! Whether a worker is well, asked often and answered cheaply.

use crate::http::get;
use crate::{CallError, HttpClient};

/// A worker that must not get requests now.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// No answer.
    #[error("does not answer /health: {0}")]
    Unreachable(#[from] CallError),
    /// It says so itself.
    #[error("answers /health with {0}")]
    Unwell(http::StatusCode),
}

// === impl HealthError ===

impl HealthError {
    /// Whether the router could not ask, for want of something of its own.
    pub const fn is_shortage(&self) -> bool {
        matches!(self, Self::Unreachable(CallError::Shortage(_)))
    }
}

/// Asks `/health`. Every known engine has it; a server without it (404, 405) is taken as well, since it answers.
///
/// # Errors
/// No answer, or a server error.
pub async fn check_health(client: &HttpClient, url: &str) -> Result<(), HealthError> {
    let status = get(client, url, "/health").await?.status;
    if status.is_server_error() { Err(HealthError::Unwell(status)) } else { Ok(()) }
}
