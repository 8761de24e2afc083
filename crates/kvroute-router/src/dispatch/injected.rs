//! What the router asks of an engine beyond what its client asks, and takes out of the answer again.
//!
//! An engine may refuse a field that it does not know. It is then asked without it, and its worker remembers what it did
//! not take once it has answered that: a request that is wrong in itself is refused again.

use http::StatusCode;
use kvroute_core::Phase;
use kvroute_openai::{ClientRequest, TokenIds, UsageChunk};

use super::exchange::Answer;
use crate::attempt::Attempt;
use crate::config::HistoryOutputs;
use crate::migration::needs_token_ids;
use crate::worker::Worker;

/// Words in the error text of an engine that refuses the question for usage.
const USAGE: [&str; 2] = ["stream_options", "include_usage"];

/// The same for token ids.
const TOKEN_IDS: [&str; 1] = ["return_token_ids"];

/// Words of an engine that does not say which field it does not know.
const ANY: [&str; 2] = ["extra", "unexpected"];

/// The questions that were added to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Injected {
    /// `stream_options.include_usage`
    pub(crate) usage: bool,
    /// `return_token_ids`
    pub(crate) token_ids: bool,
}

// === impl Injected ===

impl Injected {
    /// What to ask of the attempt's worker.
    pub(super) fn wanted(attempt: &Attempt, request: &ClientRequest) -> Self {
        let rank = attempt.rank();
        let (engine, worker) = (rank.engine, &rank.worker);
        if attempt.phase() == Phase::Prefill {
            return Self::default(); // Its answer is a whole one that no client sees.
        }
        let gives_ids = match attempt.pool().config().history.outputs {
            HistoryOutputs::Off => false,
            HistoryOutputs::Auto => engine.gives_token_ids(),
            HistoryOutputs::Ids => true,
        };
        let usage = request.lacks_usage() && engine.accepts_stream_options() && worker.takes_stream_options();
        let for_history = attempt.follows_token_ids() && gives_ids;
        let for_migration = needs_token_ids(attempt, request) && engine.gives_token_ids();
        let token_ids =
            (for_history || for_migration) && request.lacks_token_ids() && worker.takes_token_ids();
        Self { usage, token_ids }
    }

    /// What is left to ask where the answer may be the refusal of a question that was added; `None` where it is not.
    pub(super) fn without_refused(self, answer: &Answer) -> Option<Self> {
        let Answer::Whole(_, body) = answer else { return None };
        if !is_refused(answer) {
            return None;
        }
        let text = String::from_utf8_lossy(body).to_ascii_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let named =
            Self { usage: self.usage && !names(&USAGE), token_ids: self.token_ids && !names(&TOKEN_IDS) };
        match named {
            _ if named != self => Some(named),
            _ if !names(&ANY) => None,
            // The rarer question first.
            Self { token_ids: true, .. } => Some(Self { token_ids: false, ..self }),
            Self { usage: true, .. } => Some(Self { usage: false, ..self }),
            _ => None,
        }
    }

    /// The answer came only once these were left of what was asked.
    pub(super) fn remember(self, left: Self, answer: &Answer, worker: &Worker) {
        if is_refused(answer) {
            return;
        }
        if self.usage && !left.usage {
            worker.refuses_stream_options();
        }
        if self.token_ids && !left.token_ids {
            worker.refuses_token_ids();
        }
    }

    /// What happens to the usage chunk of the answer.
    pub(crate) const fn usage_chunk(self) -> UsageChunk {
        if self.usage { UsageChunk::Withhold } else { UsageChunk::Forward }
    }

    /// What happens to the token ids of the answer.
    pub(crate) fn ids_in_answer(self, attempt: &Attempt) -> TokenIds {
        match self.token_ids {
            true => TokenIds::Withhold(attempt.rank().engine.unasked_token_ids()),
            false if attempt.follows_token_ids() || attempt.pool().config().migrations > 0 => TokenIds::Read,
            false => TokenIds::Ignore,
        }
    }
}

/// 400 or 422: the request cannot be processed as it is.
fn is_refused(answer: &Answer) -> bool {
    let (Answer::Stream(head, _) | Answer::Whole(head, _)) = answer;
    matches!(head.status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY)
}

#[cfg(test)]
mod tests;
