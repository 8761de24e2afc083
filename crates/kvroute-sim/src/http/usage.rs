//! Counting an answer, and telling the count in the words of its API.

use kvroute_openai::Endpoint;

use super::handover::ToldUsage;
use super::request::SimRequest;
use super::shapes::usage::{
    EngineData, MessageUsage, PromptDetails, ResponsesUsage, StreamUsage, WholeUsage,
};
use crate::config::{Flavour, SimConfig};
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
    cached_tokens_by_choice: Vec<u64>,
    /// Answers to each prompt.
    choices: usize,
    list_report: ListReport,
    /// The choice whose prefill is reported first: the first one of the last prompt.
    reported_choice: usize,
    /// Known from the first token of that choice on.
    is_prefilled: bool,
    told: ToldUsage,
    created_cache_tokens: u64,
    block_size: u64,
    has_created: bool,
    shows_details: bool,
    odd: Option<OddReport>,
    private: Option<PrivateReport>,
}

/// What is reported of a list of prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListReport {
    /// The reuse of the last prompt, all tokens.
    Last,
    /// All of it.
    Sum,
    /// One answer to the first prompt.
    First,
}

/// Usage in figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) prompt: u64,
    pub(super) completion: u64,
    /// `None` where reuse is not told.
    pub(super) cached: Option<ToldTokens>,
}

// === impl UsageMeter ===

impl UsageMeter {
    /// A meter at zero. The answer misreports in this way, if in any.
    pub(super) fn new(
        request: &SimRequest,
        config: &SimConfig,
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
            cached_tokens_by_choice: vec![0; choices],
            choices: request.generation.choices as usize,
            list_report: match config.flavour {
                Flavour::Vllm => ListReport::Last,
                Flavour::Sglang | Flavour::TrtLlm => ListReport::Sum,
                Flavour::LlamaCpp => ListReport::First,
            },
            reported_choice: choices - request.generation.choices as usize,
            is_prefilled: false,
            told: request.handover.told,
            created_cache_tokens: 0,
            block_size: u64::from(config.block_size.get()),
            has_created: request.endpoint == Endpoint::ChatCompletions,
            shows_details: (config.prompt_tokens_details || !config.flavour.can_hide_reuse())
                && !faults.no_report
                && odd != Some(OddReport::Missing),
            odd,
            private: faults.engine_data.filter(|_| odd != Some(OddReport::Missing)),
        }
    }

    /// Notes what was reused; from then on an early report can be made.
    pub(super) fn prefilled(&mut self, token: &Token) {
        let choice = token.choice as usize;
        let found = token.prefill.reused_tokens + token.prefill.transferred_tokens;
        self.cached_tokens_by_choice[choice] = found;
        if choice == self.reported_choice {
            self.is_prefilled = true;
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

    /// Usage so far, as the engine tells it of all choices.
    pub(super) fn figures(&self) -> Figures {
        let (prompt, completion) = match self.list_report {
            ListReport::First => (self.prompt_tokens_by_choice[0], self.completion_tokens_by_choice[0]),
            ListReport::Last | ListReport::Sum => (self.prompt_tokens, self.completion_tokens),
        };
        Figures {
            prompt: self.told.prompt_tokens.unwrap_or(prompt),
            completion,
            cached: self.shows_details.then(|| self.told()),
        }
    }

    /// Usage so far of one choice.
    pub(super) fn figures_of(&self, choice: usize) -> Figures {
        let (prompt, cached) = (self.prompt_tokens_by_choice[choice], self.cached_tokens_by_choice[choice]);
        Figures {
            prompt: self.told.prompt_tokens.unwrap_or(prompt),
            completion: self.completion_tokens_by_choice[choice],
            cached: self.shows_details.then(|| self.tell(self.told.cached_tokens.unwrap_or(cached))),
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
        let cached = || match self.list_report {
            ListReport::Last => self.cached_tokens_by_choice[self.reported_choice],
            ListReport::Sum => self.cached_tokens_by_choice.iter().step_by(self.choices).sum(),
            ListReport::First => self.cached_tokens_by_choice[0],
        };
        self.tell(self.told.cached_tokens.unwrap_or_else(cached))
    }

    fn tell(&self, cached_tokens: u64) -> ToldTokens {
        ToldTokens::new(cached_tokens, self.prompt_tokens, self.odd)
    }

    fn details(&self) -> Option<PromptDetails> {
        self.shows_details.then(|| PromptDetails {
            cached_tokens: self.told(),
            created_cache_tokens: self.has_created.then_some(self.created_cache_tokens),
        })
    }
}
