//! Reads the parts of a response: a stream's chunks or a whole body.
//!
//! One walk over the top level answers every question about a part, and each field is judged on its own:
//! text that breaks the grammar says nothing at all, but an odd value silences only itself. Which API the response
//! belongs to shows in its members, so nobody has to know it beforehand.

mod choice;
mod correction;
mod death;
mod delivered;
mod figures;
mod ids;
mod likeness;
mod report;
mod typed;
mod usage;

#[cfg(test)]
mod tests;

use kvroute_core::TokenId;

use self::choice::{Choices, Words};
pub use self::correction::UsageCorrection;
pub use self::delivered::Delivered;
use self::delivered::PartSaid;
use self::ids::{IdReader, Listed};
use self::likeness::Likeness;
use self::report::ReportDraft;
use self::typed::{Ending, TypedPart};
use self::usage::MessageUsage;
use crate::edits::Edits;
use crate::{FinishReason, JsonError, JsonKind, JsonReader, Observation, TokenIds};

/// What the router has to know about a part in order to forward it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// `choices: []` with a usage object: the chunk that `include_usage` adds to a stream.
    pub(crate) is_usage_only: bool,
    /// A chunk that is there only because the router asked for token ids.
    pub(crate) is_ids_only: bool,
    /// Something in it must not reach the client as it is.
    pub(crate) is_edited: bool,
    /// Nothing else is in it.
    pub(crate) is_private: bool,
    /// Nothing in it is for the client of an answer that another engine goes on with.
    pub(crate) is_withheld: bool,
}

/// Reads the parts of one answer in their order.
#[derive(Debug, Default)]
pub(crate) struct PartReader {
    message: MessageUsage,
    /// Why a message ended, told shortly before its stream does.
    announced: Option<FinishReason>,
    response_id: Option<String>,
    sequence_number: Option<u64>,
    ids: IdReader,
    /// What the client is told in the place of the engine's counts.
    correction: UsageCorrection,
    /// What the client has; `None` where nobody keeps it.
    delivered: Option<Box<Delivered>>,
    /// The engine told that it died, where another one may go on.
    has_died: bool,
    /// Those of the part that was read last.
    edits: Edits,
    likeness: Likeness,
}

/// What one part says, before it is known to be whole.
#[derive(Debug, Default)]
struct Said<'a> {
    members: usize,
    identity: [Option<&'a str>; 4],
    choices: Option<Choices<'a>>,
    draft: ReportDraft,
    /// Generated ids beside the choices.
    ids: Listed,
    typed: TypedPart<'a>,
    is_error: bool,
}

// === impl PartReader ===

impl PartReader {
    /// For an answer whose token ids are treated like that.
    pub(crate) fn new(token_ids: TokenIds) -> Self {
        Self { ids: IdReader::new(token_ids), ..Self::default() }
    }

    /// The same with counts of tokens that the client sees corrected.
    pub(crate) fn correcting(self, correction: UsageCorrection) -> Self {
        Self { correction, ..self }
    }

    /// The same, keeping what the client has, or going on with what it has.
    pub(crate) fn keeping(mut self, delivered: Delivered) -> Self {
        self.ids.hides_prompt = delivered.is_continued();
        Self { delivered: Some(Box::new(delivered)), ..self }
    }

    pub(crate) fn delivered(&self) -> Option<&Delivered> {
        self.delivered.as_deref()
    }

    pub(crate) fn take_delivered(&mut self) -> Option<Box<Delivered>> {
        self.delivered.take()
    }

    pub(crate) fn put_delivered(&mut self, delivered: Option<Box<Delivered>>) {
        self.delivered = delivered;
    }

    pub(crate) const fn has_died(&self) -> bool {
        self.has_died
    }

    /// A part passes that was not read.
    pub(crate) fn unread(&mut self) {
        if let Some(delivered) = &mut self.delivered {
            delivered.unread();
        }
    }

    /// Whether a part says the same as the last one, which needs no reading; appends what it says.
    pub(crate) fn is_alike(&self, part: &[u8], observations: &mut Vec<Observation>) -> bool {
        let choice = self.likeness.choice_of(part);
        observations.extend(choice.map(|choice| Observation::Content { choice }));
        choice.is_some()
    }

    /// Reads a part and appends what it says. `None`, and nothing appended, for text that is no JSON object.
    pub(crate) fn read(&mut self, text: &str, observations: &mut Vec<Observation>) -> Option<Part> {
        let (before, ids) = (observations.len(), self.ids.ids().len());
        self.edits.clear();
        self.likeness.forget();
        match self.walk(text, observations) {
            Ok(said) if said.is_error && self.delivered.is_some() && death::is_told(text) => {
                observations.truncate(before);
                self.has_died = true;
                Some(Part { is_withheld: true, ..Part::default() })
            }
            Ok(said) => {
                self.conclude(&said, observations);
                let is_withheld = self.deliver(&said, &observations[before..]);
                let part = Part { is_withheld, ..self.part(&said) };
                self.learn(text, &said, part, &observations[before..]);
                Some(part)
            }
            Err(_) => {
                observations.truncate(before);
                self.ids.truncate(ids);
                None
            }
        }
    }

    /// Appends the part that was read last, `text`, without what must not reach the client.
    pub(crate) fn write_edited(&mut self, text: &str, out: &mut Vec<u8>) {
        self.edits.write(text, out);
    }

    pub(crate) const fn withholds_token_ids(&self) -> bool {
        self.ids.are_withheld()
    }

    /// The ids that observations speak of.
    pub(crate) fn token_ids(&self) -> &[TokenId] {
        self.ids.ids()
    }

    /// The observations so far were taken.
    pub(crate) fn clear_token_ids(&mut self) {
        self.ids.truncate(0);
    }

    pub(crate) fn into_token_ids(self) -> Vec<TokenId> {
        self.ids.into_ids()
    }

    /// The id of the response, where the answer is one of `/v1/responses`.
    pub(crate) fn response_id(&self) -> Option<&str> {
        self.response_id.as_deref()
    }

    /// The number that the next event of a numbered stream would have.
    pub(crate) fn next_sequence_number(&self) -> u64 {
        self.sequence_number.map_or(0, |number| number.saturating_add(1))
    }

    fn walk<'a>(
        &mut self,
        text: &'a str,
        observations: &mut Vec<Observation>,
    ) -> Result<Said<'a>, JsonError> {
        let Self { ids, edits, correction, delivered, .. } = self;
        let mut reader = JsonReader::new(text);
        let mut said = Said::default();
        reader.object(|member, key| {
            said.members += 1;
            if let Some(delivered) = delivered
                && let Some(at) = Delivered::identity_of(key)
            {
                member.kind()?;
                let start = member.position();
                let written = member.skip()?;
                said.identity[at] = Some(written);
                if let Some(told) = delivered.identity_unlike(at, written) {
                    edits.replace(start..member.position(), told.to_owned());
                }
                return Ok(());
            }
            match key {
                "choices" => said.choices = choice::read_choices(member, ids, edits, observations)?,
                "usage" => said.draft.read_usage(member, *correction, edits)?,
                "timings" => said.draft.read_timings(member)?,
                "prompt_progress" => said.draft.read_progress(member)?,
                "meta_info" => said.draft.read_meta_info(member)?,
                "engine_data" => {
                    member.kind()?;
                    let start = member.position();
                    said.ids = said.draft.read_engine_data(member, ids)?;
                    edits.remove_member(start..member.position());
                }
                "prompt_token_ids" => ids.read_prompt(member, edits)?,
                "error" => said.is_error = member.skip()? != "null",
                _ => said.typed.read(member, key, &mut said.draft)?,
            }
            Ok::<(), JsonError>(())
        })?;
        reader.finish()?;
        Ok(said)
    }

    fn part(&self, said: &Said<'_>) -> Part {
        let has_no_choices = said.choices.as_ref().is_some_and(|choices| choices.count == 0);
        let are_ids_only = said.choices.as_ref().is_some_and(|choices| choices.are_ids_only);
        Part {
            is_usage_only: has_no_choices && said.draft.usage.is_some(),
            is_ids_only: are_ids_only && self.ids.are_withheld() && !said.is_error,
            is_edited: !self.edits.is_empty(),
            is_private: self.edits.removed() > 0 && self.edits.removed() == said.members,
            is_withheld: false,
        }
    }

    /// Notes down what the client gets of a part. Returns whether that is nothing but what it has.
    fn deliver(&mut self, said: &Said<'_>, observations: &[Observation]) -> bool {
        let Some(delivered) = &mut self.delivered else { return false };
        let mut part = PartSaid { identity: said.identity, ..PartSaid::default() };
        let mut is_empty = false;
        if let Some((words, is_first)) = said.choices.as_ref().and_then(Choices::only_words) {
            let Words { text, role, has_other, .. } = words.clone();
            (part.text, part.role, part.has_other) = (text, role, has_other);
            part.is_of_first_choice = is_first;
            is_empty = words.is_empty;
        }
        let repeats_role = delivered.repeats_role(&part);
        if let Some(role) = part.role.clone().filter(|_| repeats_role) {
            self.edits.remove_nested(role);
        }
        delivered.take(&part, observations, self.ids.ids());
        repeats_role && is_empty
    }

    /// Parts to come may differ from this one in nothing but the text.
    fn learn(&mut self, part: &str, said: &Said<'_>, read: Part, observations: &[Observation]) {
        let is_text_alone = matches!(observations, [Observation::Content { .. }]) && read == Part::default();
        let changes_nothing = said.typed.changes_nothing()
            && self.delivered.as_ref().is_none_or(|delivered| delivered.is_settled());
        let text = said.choices.as_ref().and_then(Choices::only_text);
        if let Some((choice, written)) = text.filter(|_| is_text_alone && changes_nothing) {
            self.likeness.learn(part, written, choice);
        }
    }

    fn conclude(&mut self, said: &Said<'_>, observations: &mut Vec<Observation>) {
        let Said { choices, draft, ids, typed, is_error, .. } = said;
        if let Some(choices) = choices {
            choices.take_ids(*ids, observations);
        }
        if self.response_id.is_none() {
            self.response_id = typed.response_id();
        }
        self.sequence_number = typed.sequence_number().or(self.sequence_number);
        observations.extend(typed.has_content().then_some(Observation::Content { choice: 0 }));
        if let Some(usage) = &draft.usage {
            self.message.take(usage);
            let mut counts = usage.counts(&self.message);
            counts.completion = counts.completion.filter(|_| !typed.begins_message());
            observations.push(Observation::Usage(counts));
        }
        observations.extend(draft.report(&self.message).map(Observation::Report));
        observations.extend((*is_error || typed.is_error()).then_some(Observation::Error));
        self.end(typed.ending(), observations);
    }

    fn end(&mut self, ending: Ending, observations: &mut Vec<Observation>) {
        let finish = |reason| Observation::Finish { choice: 0, reason };
        match ending {
            Ending::None => {}
            Ending::Announced(reason) => self.announced = Some(reason),
            Ending::Stream(reason) => {
                let reason = reason.or(self.announced).unwrap_or(FinishReason::Other);
                observations.extend([finish(reason), Observation::Done]);
            }
            Ending::FailedStream => observations.extend([Observation::Error, Observation::Done]),
            Ending::Whole(reason) => observations.push(finish(reason)),
            Ending::FailedWhole => observations.push(Observation::Error),
        }
    }
}

/// Reads an object member by member, or skips what is no object. Returns whether it was one.
fn object_or_skip<'a>(
    reader: &mut JsonReader<'a>,
    member: impl FnMut(&mut JsonReader<'a>, &str) -> Result<(), JsonError>,
) -> Result<bool, JsonError> {
    let is_object = reader.kind()? == JsonKind::Object;
    if is_object {
        reader.object(member)?;
    } else {
        reader.skip()?;
    }
    Ok(is_object)
}
