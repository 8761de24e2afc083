//! What a client has of an answer, kept as long as another engine may have to go on with it.
//!
//! What counts is what was forwarded: a part is taken in when its line is complete, and its line is what passes. An engine
//! may be ahead of its own text: it holds back what may become a stop text, and bytes that are no whole character yet. So
//! the ids that came are not the ids of the text, and which of them the text stands for has to be found out
//! ([`Delivered::tokens_of_text`]).
//!
//! The client must not notice the seam, so the parts that follow take the identity of the first ones.

use std::ops::Range;

use kvroute_core::TokenId;

use crate::{JsonReader, Observation, Obstacle};

/// Members that are the same in all parts of an answer.
const IDENTITY: [&str; 4] = ["id", "created", "model", "system_fingerprint"];

/// Bytes of text that are kept of one answer.
const MOST_TEXT: usize = 4 << 20;

/// Tokens that are looked at before the last one, for text that an engine held back.
const MOST_HELD_BACK: usize = 32;

/// Tokens of the prompt that an answer is decoded behind: a tokenizer may write the first token of a text otherwise.
const CONTEXT: usize = 16;

/// An answer of one text, as far as its client has it.
#[derive(Clone, Debug, Default)]
pub struct Delivered {
    identity: Identity,
    has_role: bool,
    /// Whether the client may have got anything that was generated.
    has_content: bool,
    text: String,
    token_ids: Vec<TokenId>,
    /// Of the ids those that had come with the latest text.
    ids_at_text: usize,
    obstacle: Option<Obstacle>,
    is_continued: bool,
}

/// Values of [`IDENTITY`] as they are written.
pub(super) type Identity = [Option<String>; IDENTITY.len()];

/// What one part says that matters here.
#[derive(Clone, Debug, Default)]
pub(super) struct PartSaid<'a> {
    /// Values of [`IDENTITY`].
    pub(super) identity: [Option<&'a str>; IDENTITY.len()],
    /// Its choices are one, the first.
    pub(super) is_of_first_choice: bool,
    /// Text, as it is written.
    pub(super) text: Option<&'a str>,
    /// Where the value of `role` stands.
    pub(super) role: Option<Range<usize>>,
    /// A thought, a call or a refusal.
    pub(super) has_other: bool,
}

// === impl Delivered ===

impl Delivered {
    /// Of an answer that has not begun. Where something stands against a continuation anyhow, no text is kept.
    pub fn new(obstacle: Option<Obstacle>) -> Self {
        Self { obstacle, ..Self::default() }
    }

    /// Whether the client has nothing that was generated: the answer may begin anew.
    pub const fn is_blank(&self) -> bool {
        !self.has_content
    }

    /// What stands against a continuation.
    pub const fn obstacle(&self) -> Option<Obstacle> {
        self.obstacle
    }

    /// The text that the client has.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The ids that came, of which the last may stand for text that did not come.
    pub fn token_ids(&self) -> &[TokenId] {
        &self.token_ids
    }

    /// How many of the ids stand for exactly the text, behind that prompt; `None` where none do. `decode` makes text of
    /// ids, special tokens included.
    pub fn tokens_of_text(&self, prompt: &[TokenId], decode: impl Fn(&[TokenId]) -> String) -> Option<usize> {
        let context = &prompt[prompt.len().saturating_sub(CONTEXT)..];
        let wanted = decode(context) + &self.text;
        let fewest = self.ids_at_text.saturating_sub(MOST_HELD_BACK);
        let is_text = |count: &usize| decode(&[context, &self.token_ids[..*count]].concat()) == wanted;
        (fewest..=self.ids_at_text).rev().find(is_text)
    }

    /// How many of the ids a chat with the text as its last message has behind the prompt; `None` where that chat,
    /// `rendered`, is not the prompt and then generated tokens. A template may trim a message, so text with white space at
    /// its ends must have taken all of the ids that came with it.
    pub fn tokens_of_chat(&self, prompt: &[TokenId], rendered: &[TokenId]) -> Option<usize> {
        let behind = rendered.strip_prefix(prompt)?;
        let is_generated = self.token_ids[..self.ids_at_text].starts_with(behind);
        let is_whole = behind.len() == self.ids_at_text || self.text.trim() == self.text;
        (is_generated && is_whole).then_some(behind.len())
    }

    /// From here on another engine answers, behind so many of the tokens.
    #[must_use]
    pub fn continued_behind(mut self, tokens: usize) -> Self {
        self.token_ids.truncate(tokens);
        self.ids_at_text = self.token_ids.len();
        self.is_continued = true;
        self
    }

    pub(super) const fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// The place of a member among those that are the same in all parts.
    pub(super) fn identity_of(key: &str) -> Option<usize> {
        IDENTITY.iter().position(|name| *name == key)
    }

    /// What the client was told there, where that is not what is written now.
    pub(super) fn identity_unlike(&self, member: usize, written: &str) -> Option<&str> {
        let told = self.identity[member].as_deref()?;
        (self.is_continued && told != written).then_some(told)
    }

    /// Whether it stays as it is, whatever text comes.
    pub(super) const fn is_settled(&self) -> bool {
        self.has_content && self.obstacle.is_some() && !self.is_continued
    }

    /// Whether a role is told again.
    pub(super) fn repeats_role(&self, said: &PartSaid<'_>) -> bool {
        self.is_continued && self.has_role && said.role.is_some()
    }

    /// Something was forwarded that nobody here has read.
    pub(super) fn unread(&mut self) {
        self.has_content = true;
        self.give_up(Obstacle::Unread);
    }

    /// Takes in a part that is forwarded; `observations` are those of the part, and `ids` is what they speak of.
    pub(super) fn take(&mut self, said: &PartSaid<'_>, observations: &[Observation], ids: &[TokenId]) {
        for (own, told) in self.identity.iter_mut().zip(said.identity) {
            if own.is_none() {
                *own = told.map(str::to_owned);
            }
        }
        self.has_role |= said.role.is_some();
        let before = self.token_ids.len();
        let mut has_content = false;
        for observation in observations {
            match observation {
                Observation::Content { .. } => has_content = true,
                Observation::Generated { ids: Some(span), .. } => {
                    if self.obstacle.is_none() {
                        self.token_ids.extend_from_slice(span.of(ids));
                    }
                }
                Observation::Generated { ids: None, .. } => self.give_up(Obstacle::NoTokenIds),
                Observation::Finish { .. } | Observation::Done => self.ended(Obstacle::Finished),
                Observation::Error => self.ended(Obstacle::Error),
                Observation::Usage(_) | Observation::Report(_) => {}
            }
        }
        if has_content {
            self.take_content(said, self.token_ids.len() > before);
        }
    }

    fn take_content(&mut self, said: &PartSaid<'_>, has_ids: bool) {
        self.has_content = true;
        if self.obstacle.is_some() {
            return;
        }
        let text = said.text.map(|written| JsonReader::new(written).string());
        match text {
            _ if !said.is_of_first_choice => self.give_up(Obstacle::Choices),
            Some(Ok(text)) if !said.has_other && has_ids => self.text.push_str(&text),
            Some(Ok(_)) if !said.has_other => self.give_up(Obstacle::NoTokenIds),
            _ => self.give_up(Obstacle::OtherThanText),
        }
        self.ids_at_text = self.token_ids.len();
        if self.text.len() > MOST_TEXT {
            self.give_up(Obstacle::TooLong);
        }
    }

    /// The client knows how the answer ended, so it cannot begin anew, either.
    fn ended(&mut self, obstacle: Obstacle) {
        self.has_content = true;
        self.give_up(obstacle);
    }

    /// What is kept is of no use any more.
    fn give_up(&mut self, obstacle: Obstacle) {
        self.obstacle.get_or_insert(obstacle);
        (self.text, self.token_ids, self.ids_at_text) = (String::new(), Vec::new(), 0);
    }
}

#[cfg(test)]
mod tests;
