//! How a command ends when it does not succeed.

use std::fmt;
use std::process::ExitCode;

use kvroute_server::StartError;
use kvroute_sim::StartError as EngineStartError;
use kvroute_tokenize::LoadError;

use crate::config::ConfigError;

/// A failed command: what to print, and which exit code it earns.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong usage or configuration: exit code 2.
    Usage(String),
    /// Everything else: exit code 1.
    Failed(String),
}

// === impl Failure ===

impl Failure {
    /// 2 for what the user must type differently, 1 for what went wrong.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
        }
    }

    /// A failure while doing what the words name.
    pub(crate) fn while_doing(action: &str, cause: impl fmt::Display) -> Self {
        Self::Failed(format!("{action}: {cause}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Failed(message) => f.write_str(message),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<StartError> for Failure {
    /// A port in use passes, a setting stays wrong.
    fn from(error: StartError) -> Self {
        match error {
            StartError::Listen(_) | StartError::Threads(_) => Self::Failed(error.to_string()),
            StartError::AdminOpen(_) | StartError::Metrics(_) | StartError::Router(_) => {
                Self::Usage(error.to_string())
            }
        }
    }
}

impl From<EngineStartError> for Failure {
    fn from(error: EngineStartError) -> Self {
        match error {
            EngineStartError::Config(_) => Self::Usage(error.to_string()),
            EngineStartError::Listen { .. }
            | EngineStartError::Events(_)
            | EngineStartError::Transfer { .. } => Self::Failed(error.to_string()),
        }
    }
}
