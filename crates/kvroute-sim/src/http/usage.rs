//! Counting an answer, and telling the count in vLLM's words.

use kvroute_openai::Endpoint;

use super::request::SimRequest;
use super::shapes::usage::{PromptDetails, StreamUsage, WholeUsage};
use crate::faults::Faults;
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
    cached_tokens: u64,
    created_cache_tokens: u64,
    block_size: u64,
    has_created: bool,
    shows_details: bool,
    null_cached_tokens: bool,
}

// === impl UsageMeter ===

impl UsageMeter {
    pub(super) fn new(request: &SimRequest, block_size: u64, shows_details: bool, faults: &Faults) -> Self {
        let wrong = |tokens: u64| tokens.saturating_add_signed(faults.prompt_tokens_offset);
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
            cached_tokens: 0,
            created_cache_tokens: 0,
            block_size,
            has_created: request.endpoint == Endpoint::ChatCompletions,
            shows_details: shows_details && !faults.no_report,
            null_cached_tokens: faults.null_cached_tokens,
        }
    }

    /// Counts one generated token.
    pub(super) fn count(&mut self, token: &Token) {
        let choice = token.choice as usize;
        self.completion_tokens += 1;
        self.completion_tokens_by_choice[choice] += 1;
        if choice == self.reported_choice {
            self.cached_tokens = token.prefill.reused_tokens;
            self.created_cache_tokens = token.prefill.created_blocks * self.block_size;
        }
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

    fn details(&self) -> Option<PromptDetails> {
        self.shows_details.then(|| PromptDetails {
            cached_tokens: (!self.null_cached_tokens).then_some(self.cached_tokens),
            created_cache_tokens: self.has_created.then_some(self.created_cache_tokens),
        })
    }
}
