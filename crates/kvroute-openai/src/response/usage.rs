//! The `usage` of a response, in the words of four APIs.
//!
//! Chats and completions say `prompt_tokens`, the other two `input_tokens` and mean different things by it: under
//! `/v1/responses` it is the whole prompt, under `/v1/messages` what was neither read from the cache nor written to it.
//! Which is meant shows in the members beside it. Anthropic's figures may also come in pieces, some with the start of a
//! stream and some near its end, where a later word replaces an earlier one.

use kvroute_core::{Figure, ReportSource, WorkerReport};

use super::figures::{read_figure, read_pair, sum};
use crate::{JsonError, JsonReader, TokenCounts};

/// The figures of one `usage` object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    prompt: Figure,
    cached: Figure,
    completion: Figure,
    input: Figure,
    input_cached: Figure,
    has_input_details: bool,
    output: Figure,
    cache_read: Figure,
    cache_creation: Figure,
}

/// What the parts of one response said so far in Anthropic's words.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageUsage {
    input: Figure,
    cache_read: Figure,
    cache_creation: Figure,
}

// === impl Usage ===

impl Usage {
    pub(super) fn read(&mut self, reader: &mut JsonReader<'_>, key: &str) -> Result<(), JsonError> {
        match key {
            "prompt_tokens" => self.prompt = read_figure(reader)?,
            "completion_tokens" => self.completion = read_figure(reader)?,
            "prompt_tokens_details" => self.cached = read_pair(reader, "", "cached_tokens")?.reused,
            "input_tokens" => self.input = read_figure(reader)?,
            "output_tokens" => self.output = read_figure(reader)?,
            "input_tokens_details" => {
                self.has_input_details = true;
                self.input_cached = read_pair(reader, "", "cached_tokens")?.reused;
            }
            "cache_read_input_tokens" => self.cache_read = read_figure(reader)?,
            "cache_creation_input_tokens" => self.cache_creation = read_figure(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    }

    /// The token counts; `message` is all that was said of the prompt in Anthropic's words, this object included.
    pub(super) fn counts(&self, message: &MessageUsage) -> TokenCounts {
        let prompt = match (self.prompt, self.input) {
            (Figure::Absent, _) if self.has_input_details => self.input,
            (Figure::Absent, _) => message.counted(),
            (prompt, _) => prompt,
        };
        let completion = if self.completion == Figure::Absent { self.output } else { self.completion };
        TokenCounts { prompt: prompt.count(), completion: completion.count() }
    }

    /// The first statement of reuse in it, in the order of [`ReportSource`].
    pub(super) fn report(&self, message: &MessageUsage) -> Option<WorkerReport> {
        let message = if self.speaks_of_message() { *message } else { MessageUsage::default() };
        [
            (ReportSource::Usage, self.prompt, self.cached),
            (ReportSource::Usage, self.input, self.input_cached),
            (ReportSource::AnthropicUsage, message.prompt(), message.reused()),
        ]
        .into_iter()
        .find(|(_, _, reused)| *reused != Figure::Absent)
        .map(|(source, prompt, reused)| WorkerReport { source, prompt, reused })
    }

    /// Whether it says anything of the prompt that Anthropic's words may be.
    fn speaks_of_message(&self) -> bool {
        !self.has_input_details
            && [self.input, self.cache_read, self.cache_creation].iter().any(|said| *said != Figure::Absent)
    }
}

// === impl MessageUsage ===

impl MessageUsage {
    /// Takes what one object says; what it leaves out stands as it was.
    pub(super) fn take(&mut self, usage: &Usage) {
        if !usage.speaks_of_message() {
            return;
        }
        let later = |before: Figure, now: Figure| if now == Figure::Absent { before } else { now };
        self.input = later(self.input, usage.input);
        self.cache_read = later(self.cache_read, usage.cache_read);
        self.cache_creation = later(self.cache_creation, usage.cache_creation);
    }

    /// Anthropic counts apart what was read from the cache and what was written to it. An empty prompt does not exist:
    /// it stands at the start of a stream whose engine has not counted yet.
    fn prompt(&self) -> Figure {
        let read = if self.cache_read == Figure::Absent { Figure::Count(0) } else { self.cache_read };
        match sum(sum(self.input, read), or_zero(self.cache_creation)) {
            Figure::Count(0) => Figure::Absent,
            prompt => prompt,
        }
    }

    /// The same for a count without a statement of reuse: what is odd about the cache does not matter.
    fn counted(&self) -> Figure {
        Self { cache_read: or_zero(self.cache_read), ..*self }.prompt()
    }

    /// What was read from the cache. Nothing read of an empty prompt is no statement.
    fn reused(&self) -> Figure {
        match (self.cache_read, self.prompt()) {
            (Figure::Count(0), Figure::Absent) if self.input != Figure::Absent => Figure::Absent,
            (reused, _) => reused,
        }
    }
}

fn or_zero(figure: Figure) -> Figure {
    Figure::Count(figure.count().unwrap_or(0))
}
