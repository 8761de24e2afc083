//! Counting an answer, and telling the count in the words of its API.

use kvroute_openai::Endpoint;

use super::request::SimRequest;
use super::shapes::usage::{
    EngineData, MessageUsage, PromptDetails, ResponsesUsage, StreamUsage, WholeUsage,
};
use crate::faults::Faults;
use crate::misreport::{OddReport, PrivateReport, ToldTokens};
use crate::runner::Token;

/// The running usage of one request.
#[derive(Debug)]
pub(super) struct UsageMeter {
    prompt_tokens: u64,
    completion_tokens: u64,
    prompt_tokens_by_choice: Vec<u64>,
    completion_tokens_by_choice: Vec<u64>,
    /// The choice whose prefill is reported: the first one of the last prompt, as vLLM reports of a list the last
    /// prompt only.
    reported_choice: usize,
    /// Known from the first token of that choice on.
    is_prefilled: bool,
    cached_tokens: u64,
    created_cache_tokens: u64,
    block_size: u64,
    has_created: bool,
    shows_details: bool,
    odd: Option<OddReport>,
    private: Option<PrivateReport>,
}

// === impl UsageMeter ===

impl UsageMeter {
    /// A meter at zero. The answer misreports in this way, if in any.
    pub(super) fn new(
        request: &SimRequest,
        block_size: u64,
        shows_details: bool,
        faults: &Faults,
        misreport: Option<OddReport>,
    ) -> Self {
        let odd = if faults.null_cached_tokens { Some(OddReport::Null) } else { misreport };
        let more = u64::from(odd == Some(OddReport::WrongPrompt));
        let wrong = |tokens: u64| tokens.saturating_add_signed(faults.prompt_tokens_offset) + more;
        let choices = request.total_choices();
        let prompt_lengths = request.generation.prompts.iter().map(|prompt| prompt.len() as u64);
        Self {
            prompt_tokens: wrong(prompt_lengths.sum()),
            completion_tokens: 0,
            prompt_tokens_by_choice: (0..choices)
                .map(|choice| wrong(request.prompt_of(choice).len() as u64))
                .collect(),
            completion_tokens_by_choice: vec![0; choices],
            reported_choice: choices - request.generation.choices as usize,
            is_prefilled: false,
            cached_tokens: 0,
            created_cache_tokens: 0,
            block_size,
            has_created: request.endpoint == Endpoint::ChatCompletions,
            shows_details: shows_details && !faults.no_report && odd != Some(OddReport::Missing),
            odd,
            private: faults.engine_data.filter(|_| odd != Some(OddReport::Missing)),
        }
    }

    /// Notes what was reused; from then on an early report can be made.
    pub(super) fn prefilled(&mut self, token: &Token) {
        if token.choice as usize == self.reported_choice {
            self.is_prefilled = true;
            self.cached_tokens = token.prefill.reused_tokens;
            self.created_cache_tokens = token.prefill.created_blocks * self.block_size;
        }
    }

    /// Counts one generated token.
    pub(super) fn count(&mut self, token: &Token) {
        self.completion_tokens += 1;
        self.completion_tokens_by_choice[token.choice as usize] += 1;
        self.prefilled(token);
    }

    /// What one choice got so far.
    pub(super) fn generated(&self, choice: usize) -> u64 {
        self.completion_tokens_by_choice[choice]
    }

    /// The usage of a whole response.
    pub(super) fn whole(&self) -> WholeUsage {
        WholeUsage::new(self.prompt_tokens, self.completion_tokens, self.details())
    }

    /// The last chunk's usage.
    pub(super) fn stream(&self) -> StreamUsage {
        StreamUsage::last(self.prompt_tokens, self.completion_tokens, self.details())
    }

    /// One choice's usage so far, in each chunk.
    pub(super) fn so_far(&self, choice: usize) -> StreamUsage {
        let completion_tokens = self.completion_tokens_by_choice[choice];
        StreamUsage::so_far(self.prompt_tokens_by_choice[choice], completion_tokens)
    }

    /// The usage of `/v1/responses`.
    pub(super) fn responses(&self) -> ResponsesUsage {
        ResponsesUsage::new(self.prompt_tokens, self.completion_tokens, self.details())
    }

    /// The usage of `/v1/messages`.
    pub(super) fn message(&self) -> MessageUsage {
        MessageUsage::new(self.prompt_tokens, self.completion_tokens, self.details())
    }

    /// The usage at the start of such a message's stream.
    pub(super) const fn message_start(&self) -> MessageUsage {
        MessageUsage::start(self.prompt_tokens)
    }

    /// The private report of a whole answer.
    pub(super) fn private(&self) -> Option<EngineData> {
        self.private.map(|_| EngineData::new(self.prompt_tokens, self.told()))
    }

    /// The private report of a stream, once, when its place has come.
    pub(super) fn take_private(&mut self, is_last: bool) -> Option<EngineData> {
        let is_due = match self.private? {
            PrivateReport::FirstChunk => self.is_prefilled,
            PrivateReport::LastChunk => is_last,
        };
        let report = self.private().filter(|_| is_due)?;
        self.private = None;
        Some(report)
    }

    fn told(&self) -> ToldTokens {
        ToldTokens::new(self.cached_tokens, self.prompt_tokens, self.odd)
    }

    fn details(&self) -> Option<PromptDetails> {
        self.shows_details.then(|| PromptDetails {
            cached_tokens: self.told(),
            created_cache_tokens: self.has_created.then_some(self.created_cache_tokens),
        })
    }
}
