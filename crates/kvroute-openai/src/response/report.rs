//! Statements of reuse in a part: five wire formats, the first that is there wins.
//!
//! A number is read, never repaired. What is absent stays absent and what is odd becomes
//! [`Figure::Invalid`], because a missing number that turned into zero would be indistinguishable from
//! "nothing was reused".

use kvroute_core::{Figure, ReportSource, WorkerReport};

use super::object_or_skip;
use crate::{JsonError, JsonKind, JsonReader, TokenCounts};

/// The figures of a part that belong to a report.
#[derive(Debug, Default)]
pub(super) struct ReportDraft {
    engine_data: Option<Pair>,
    usage: Option<Usage>,
    timings: Pair,
    meta_info: Pair,
}

/// Prompt tokens and those among them that were not computed again. What `timings` calls `prompt_n` are only
/// those that were.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    prompt: Figure,
    reused: Figure,
}

/// The figures of a `usage` object, in the words of OpenAI and of Anthropic.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    prompt: Figure,
    completion: Figure,
    cached: Figure,
    input: Figure,
    cache_read: Figure,
    cache_creation: Figure,
}

// === impl ReportDraft ===

impl ReportDraft {
    /// `{"kv_cache_hit":{"prompt_tokens":N,"reused_tokens":M}}`; unknown members are accepted.
    pub(super) fn read_engine_data(&mut self, reader: &mut JsonReader<'_>) -> Result<(), JsonError> {
        object_or_skip(reader, |member, key| {
            if key == "kv_cache_hit" {
                self.engine_data = read_cache_hit(member)?;
            } else {
                member.skip()?;
            }
            Ok(())
        })?;
        Ok(())
    }

    pub(super) fn read_usage(&mut self, reader: &mut JsonReader<'_>) -> Result<(), JsonError> {
        let mut usage = Usage::default();
        let is_object = object_or_skip(reader, |member, key| usage.read(member, key))?;
        self.usage = is_object.then_some(usage);
        Ok(())
    }

    /// llama.cpp: `cache_n` tokens were reused and `prompt_n` evaluated.
    pub(super) fn read_timings(&mut self, reader: &mut JsonReader<'_>) -> Result<(), JsonError> {
        self.timings = read_pair(reader, "prompt_n", "cache_n")?;
        Ok(())
    }

    /// SGLang's native form.
    pub(super) fn read_meta_info(&mut self, reader: &mut JsonReader<'_>) -> Result<(), JsonError> {
        self.meta_info = read_pair(reader, "prompt_tokens", "cached_tokens")?;
        Ok(())
    }

    /// The counts of the usage object, if there was one.
    pub(super) fn usage(&self) -> Option<TokenCounts> {
        let usage = self.usage?;
        Some(TokenCounts { prompt: usage.prompt.count(), completion: usage.completion.count() })
    }

    /// The first statement of reuse in the order of [`ReportSource`].
    pub(super) fn report(&self) -> Option<WorkerReport> {
        if let Some(Pair { prompt, reused }) = self.engine_data {
            return Some(WorkerReport { source: ReportSource::EngineData, prompt, reused });
        }
        let usage = self.usage.unwrap_or_default();
        let Pair { prompt: evaluated, reused: cache_n } = self.timings;
        let Pair { prompt: native_prompt, reused: native_cached } = self.meta_info;
        [
            (ReportSource::Usage, usage.prompt, usage.cached),
            (ReportSource::AnthropicUsage, usage.anthropic_prompt(), usage.cache_read),
            (ReportSource::Timings, sum(evaluated, cache_n), cache_n),
            (ReportSource::MetaInfo, native_prompt, native_cached),
        ]
        .into_iter()
        .find(|(_, _, reused)| *reused != Figure::Absent)
        .map(|(source, prompt, reused)| WorkerReport { source, prompt, reused })
    }
}

// === impl Usage ===

impl Usage {
    fn read(&mut self, reader: &mut JsonReader<'_>, key: &str) -> Result<(), JsonError> {
        match key {
            "prompt_tokens" => self.prompt = read_figure(reader)?,
            "completion_tokens" => self.completion = read_figure(reader)?,
            "input_tokens" => self.input = read_figure(reader)?,
            "cache_read_input_tokens" => self.cache_read = read_figure(reader)?,
            "cache_creation_input_tokens" => self.cache_creation = read_figure(reader)?,
            "prompt_tokens_details" => self.cached = read_pair(reader, "", "cached_tokens")?.reused,
            _ => drop(reader.skip()?),
        }
        Ok(())
    }

    /// Anthropic counts apart what was read from the cache and what was written to it.
    fn anthropic_prompt(&self) -> Figure {
        let written = match self.cache_creation {
            Figure::Count(written) => Figure::Count(written),
            Figure::Absent | Figure::Invalid => Figure::Count(0),
        };
        sum(sum(self.input, self.cache_read), written)
    }
}

fn read_cache_hit(reader: &mut JsonReader<'_>) -> Result<Option<Pair>, JsonError> {
    match reader.kind()? {
        JsonKind::Null => {
            reader.null()?;
            Ok(None)
        }
        JsonKind::Object => read_pair(reader, "prompt_tokens", "reused_tokens").map(Some),
        _ => {
            reader.skip()?;
            Ok(Some(Pair { prompt: Figure::Invalid, reused: Figure::Invalid }))
        }
    }
}

fn read_pair(reader: &mut JsonReader<'_>, prompt: &str, reused: &str) -> Result<Pair, JsonError> {
    let mut pair = Pair::default();
    object_or_skip(reader, |member, key| {
        if key == reused {
            pair.reused = read_figure(member)?;
        } else if key == prompt {
            pair.prompt = read_figure(member)?;
        } else {
            member.skip()?;
        }
        Ok(())
    })?;
    Ok(pair)
}

/// An unsigned integer as it is written: no sign, no fraction, no exponent.
fn read_figure(reader: &mut JsonReader<'_>) -> Result<Figure, JsonError> {
    Ok(reader.skip()?.parse().map_or(Figure::Invalid, Figure::Count))
}

fn sum(left: Figure, right: Figure) -> Figure {
    match (left, right) {
        (Figure::Count(left), Figure::Count(right)) => {
            left.checked_add(right).map_or(Figure::Invalid, Figure::Count)
        }
        (Figure::Invalid, _) | (_, Figure::Invalid) => Figure::Invalid,
        (Figure::Absent, _) | (_, Figure::Absent) => Figure::Absent,
    }
}
