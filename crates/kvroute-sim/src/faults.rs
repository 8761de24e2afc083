//! Switches that make the engine misbehave, so that what stands in front of it can be tried.
//!
//! They act on generation, on the event stream and on the cache: discovery, health and `/stats` stay truthful, and so
//! does what the engine counts. The switches outlive a restart of the engine, because they belong to the trial.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::misreport::{OddReport, PrivateReport};
use crate::mix::fold;
use crate::unseen::Unseen;

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
    /// Says nothing more after so many stream chunks, and keeps the connection open.
    pub stall_after_chunks: Option<u32>,
    /// Ends the stream in good order after so many chunks, without a finish reason, usage or end mark.
    pub end_after_chunks: Option<u32>,
    /// Breaks, stalls or ends only so many more answers early; absent: all of them.
    pub broken_answers: Option<u32>,
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
    /// How answers misreport what they reused: each odd one in one of these ways. Empty: none does.
    pub odd_reports: Vec<OddReport>,
    /// Of a hundred answers so many (0 to 100) are odd, chosen by the number of the answer; absent: all of them.
    pub odd_report_percent: Option<u8>,
    /// Adds the private report `engine_data`, with members that nobody knows; in streams at this place.
    pub engine_data: Option<PrivateReport>,
    /// Adds the ids of generated tokens to `engine_data`, asked or not: of each chunk of a chat or text, or of a whole one
    /// with a single choice.
    pub private_token_ids: bool,
    /// Refuses streams that have `stream_options`, as an engine does that does not know the field.
    pub refuse_stream_options: bool,
    /// Refuses requests that have `return_token_ids`, as an engine does that does not know the field.
    pub refuse_token_ids: bool,
    /// Answers questions about what it makes of a chat with status 500.
    pub fail_render: bool,
    /// In every choice of a chat one token of so many is swallowed, as a parser does with the name of a tool: it shows in no
    /// text, and makes a chunk only where token ids are asked for. 0: none.
    pub swallow_every: u64,
    /// Answers chats that have tools with a call of the first of them, its arguments made of the answer's words.
    pub tool_calls: bool,
    /// Refuses token ids that do not exist, where SGLang dies of them.
    pub survives_bad_tokens: bool,
    /// Prefill legs fail with status 500 when their prompt is computed.
    pub fail_prefill: bool,
    /// Decode legs fail with status 500 before they fetch anything.
    pub fail_decode: bool,
    /// Of a prompt's KV that is handed over so many hundredths (0 to 100) arrive, from its start; the decode engine computes
    /// the rest, or fails where it cannot (SGLang, with 0). Absent: all of it.
    pub transfer_percent: Option<u8>,
    /// Leases of KV that is kept for another engine are over at once.
    pub expire_leases: bool,
    /// Of a hundred event messages so many (0 to 100) are not sent; they have their numbers, and replay has them.
    pub lose_events_percent: u8,
    /// Answers no replay request.
    pub no_replay: bool,
    /// Publishes nothing: what happens gets no number, and no replay knows of it.
    pub silent: bool,
    /// What happens once, when it is posted; it is not shown afterwards.
    #[serde(skip_serializing)]
    pub once: Option<Incident>,
}

/// Something that happens to the engine's cache. Running sequences are preempted and computed again, except by a
/// restart, which cuts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Incident {
    /// The cache is emptied and that is published at once, as SGLang's `/flush_cache` does.
    Reset,
    /// The cache is emptied and that is published with the next step, as vLLM's `/reset_prefix_cache` does.
    LateReset,
    /// The cache is emptied and that is never published.
    Wipe,
    /// The process is killed and started again at the same addresses: all connections break, the cache and the
    /// statistics are empty, event numbers begin at 0 and `/metrics` tells another start time.
    Restart,
}

/// Switches that are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidFaults(String);

/// The switches of one engine, and what they did to its event stream. Outlives restarts.
#[derive(Debug, Default)]
pub(crate) struct FaultBoard {
    switches: Mutex<Faults>,
    seed: u64,
    draws: AtomicU64,
    answers: AtomicU64,
    pub(crate) unseen: Unseen,
}

// === impl Faults ===

impl Faults {
    /// What is wrong with the switches themselves.
    pub(crate) fn validate(&self) -> Result<(), InvalidFaults> {
        if let Some(status) = self.refuse_status.filter(|status| !(400..=599).contains(status)) {
            let problem = format!("refuse_status is {status}; give an error status from 400 to 599");
            return Err(InvalidFaults(problem));
        }
        let percents = [
            ("lose_events_percent", self.lose_events_percent),
            ("odd_report_percent", self.odd_report_percent.unwrap_or_default()),
            ("transfer_percent", self.transfer_percent.unwrap_or_default()),
        ];
        match percents.into_iter().find(|(_, percent)| *percent > 100) {
            Some((name, percent)) => Err(InvalidFaults(format!("{name} is {percent}; give 0 to 100"))),
            None => Ok(()),
        }
    }

    /// Whether a stream is to be cut short in one of three ways.
    const fn shortens(&self) -> bool {
        self.break_after_chunks.is_some()
            || self.stall_after_chunks.is_some()
            || self.end_after_chunks.is_some()
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

// === impl FaultBoard ===

impl FaultBoard {
    /// A board with these switches. Equal seeds lose the same messages and misreport in the same answers.
    pub(crate) fn new(mut switches: Faults, seed: u64) -> Self {
        switches.once = None;
        Self { switches: Mutex::new(switches), seed, ..Self::default() }
    }

    /// The switches as they are now.
    pub(crate) fn switches(&self) -> Faults {
        self.switches.lock().clone()
    }

    /// The switches for an answer. Counts it, where only so many are cut short.
    pub(crate) fn of_answer(&self) -> Faults {
        let mut switches = self.switches.lock();
        let mut faults = switches.clone();
        if !faults.shortens() {
            return faults;
        }
        match &mut switches.broken_answers {
            None => {}
            Some(0) => {
                faults.break_after_chunks = None;
                faults.stall_after_chunks = None;
                faults.end_after_chunks = None;
            }
            Some(left) => *left -= 1,
        }
        faults
    }

    /// How the next answer misreports; a draw for each.
    pub(crate) fn misreport(&self, switches: &Faults) -> Option<OddReport> {
        let percent = u64::from(switches.odd_report_percent.unwrap_or(100));
        let draw = fold(self.seed, self.answers.fetch_add(1, Ordering::Relaxed));
        let kinds = (draw % 100 < percent).then_some(&switches.odd_reports)?;
        kinds.get((draw / 100) as usize % kinds.len().max(1)).copied()
    }

    /// Replaces all switches. Gives back what is to happen once.
    pub(crate) fn switch(&self, mut faults: Faults) -> Result<Option<Incident>, InvalidFaults> {
        faults.validate()?;
        let once = faults.once.take();
        *self.switches.lock() = faults;
        Ok(once)
    }

    /// Whether events are withheld altogether.
    pub(crate) fn is_silent(&self) -> bool {
        self.switches.lock().silent
    }

    /// Whether replay requests are ignored.
    pub(crate) fn ignores_replay(&self) -> bool {
        self.switches.lock().no_replay
    }

    /// Whether the next event message is lost; a draw for each.
    pub(crate) fn loses_next(&self) -> bool {
        let percent = u64::from(self.switches.lock().lose_events_percent);
        percent > 0 && fold(self.seed, self.draws.fetch_add(1, Ordering::Relaxed)) % 100 < percent
    }
}
