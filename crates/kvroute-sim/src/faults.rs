//! Switches that make the engine misbehave, so that what stands in front of it can be tried.
//!
//! They act on generation only: discovery, health and `/stats` stay truthful, and so does what the engine counts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What goes wrong; the default is nothing. The JSON of `GET` and `POST /faults`, where absent fields are off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Answers every request with this status (400 to 599) and an error body.
    pub refuse_status: Option<u16>,
    /// Takes requests and never answers.
    pub hang: bool,
    /// Milliseconds of silence before the response head.
    pub delay_ms: u64,
    /// Cuts the connection after so many stream chunks; a whole response is cut in the middle.
    pub break_after_chunks: Option<u32>,
    /// Puts a line that is no JSON into the stream after so many chunks.
    pub garbage_after_chunks: Option<u32>,
    /// Ends the usage chunk of a stream in the middle of its JSON.
    pub truncated_usage: bool,
    /// Reports `"cached_tokens": null`.
    pub null_cached_tokens: bool,
    /// Leaves `prompt_tokens_details` out, as an engine does that was started without the flag.
    pub no_report: bool,
    /// Added to the prompt tokens that usage tells, never below 0.
    pub prompt_tokens_offset: i64,
}

// === impl Faults ===

impl Faults {
    /// What is wrong with the switches themselves.
    pub(crate) fn validate(&self) -> Result<(), String> {
        match self.refuse_status {
            Some(status) if !(400..=599).contains(&status) => {
                Err(format!("refuse_status is {status}; give an error status from 400 to 599"))
            }
            _ => Ok(()),
        }
    }

    /// Waits as long as the switches ask for, which may be for ever.
    pub(crate) async fn before_head(&self) {
        if self.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(self.delay_ms)).await;
        }
        if self.hang {
            std::future::pending::<()>().await;
        }
    }
}
