//! Statements of reuse in a part: five wire formats, the first that is there wins.

use kvroute_core::{Figure, ReportSource, WorkerReport};

use super::correction::{UsageCorrection, UsagePlaces};
use super::figures::{Pair, read_pair, sum};
use super::ids::{IdReader, Listed};
use super::object_or_skip;
use super::usage::{MessageUsage, Usage};
use crate::edits::Edits;
use crate::{JsonError, JsonKind, JsonReader};

/// The figures of a part that belong to a report.
#[derive(Debug, Default)]
pub(super) struct ReportDraft {
    engine_data: Option<Pair>,
    /// The last usage object that was one.
    pub(super) usage: Option<Usage>,
    /// What `timings` calls `prompt_n` are only the tokens that were computed.
    timings: Pair,
    progress: Pair,
    meta_info: Pair,
}

// === impl ReportDraft ===

impl ReportDraft {
    /// `{"kv_cache_hit":{"prompt_tokens":N,"reused_tokens":M},"token_ids":[…]}`, of which everything is optional; unknown
    /// members are accepted. Returns what it lists as generated.
    pub(super) fn read_engine_data(
        &mut self,
        reader: &mut JsonReader<'_>,
        ids: &mut IdReader,
    ) -> Result<Listed, JsonError> {
        let mut generated = Listed::Absent;
        object_or_skip(reader, |member, key| {
            match key {
                "kv_cache_hit" => self.engine_data = read_cache_hit(member)?,
                "token_ids" => generated = ids.read_private(member)?,
                _ => drop(member.skip()?),
            }
            Ok(())
        })?;
        Ok(generated)
    }

    /// A `usage` member, whose corrections for the client are added to the edits.
    pub(super) fn read_usage(
        &mut self,
        reader: &mut JsonReader<'_>,
        correction: UsageCorrection,
        edits: &mut Edits,
    ) -> Result<(), JsonError> {
        if !correction.is_any() {
            return self.read_own_usage(reader);
        }
        let mut places = UsagePlaces::default();
        let mut usage = Usage::default();
        let is_object = object_or_skip(reader, |member, key| places.read(member, key, &mut usage))?;
        if is_object {
            places.correct(reader.position() - 1, correction, edits);
        }
        self.usage = is_object.then_some(usage);
        Ok(())
    }

    /// A `usage` object in which nothing is corrected.
    pub(super) fn read_own_usage(&mut self, reader: &mut JsonReader<'_>) -> Result<(), JsonError> {
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

    /// llama.cpp, while it computes the prompt: of `total` tokens `cache` were reused. Only here is the prompt's whole
    /// length told before its end; the `timings` beside it count what is evaluated so far.
    pub(super) fn read_progress(&mut self, reader: &mut JsonReader<'_>) -> Result<(), JsonError> {
        self.progress = read_pair(reader, "total", "cache")?;
        Ok(())
    }

    /// SGLang's native form.
    pub(super) fn read_meta_info(&mut self, reader: &mut JsonReader<'_>) -> Result<(), JsonError> {
        self.meta_info = read_pair(reader, "prompt_tokens", "cached_tokens")?;
        Ok(())
    }

    /// The first statement of reuse in the order of [`ReportSource`]; `message` is all that was said so far in
    /// Anthropic's words.
    pub(super) fn report(&self, message: &MessageUsage) -> Option<WorkerReport> {
        if let Some(Pair { prompt, reused }) = self.engine_data {
            return Some(WorkerReport { source: ReportSource::EngineData, prompt, reused });
        }
        let in_usage = self.usage.and_then(|usage| usage.report(message));
        in_usage.or_else(|| self.engine_report())
    }

    /// What stands outside of any usage.
    fn engine_report(&self) -> Option<WorkerReport> {
        let Pair { prompt: evaluated, reused: cache_n } = self.timings;
        [
            (ReportSource::Timings, self.progress.prompt, self.progress.reused),
            (ReportSource::Timings, sum(evaluated, cache_n), cache_n),
            (ReportSource::MetaInfo, self.meta_info.prompt, self.meta_info.reused),
        ]
        .into_iter()
        .find(|(_, _, reused)| *reused != Figure::Absent)
        .map(|(source, prompt, reused)| WorkerReport { source, prompt, reused })
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
