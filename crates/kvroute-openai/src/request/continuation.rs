//! Whether another engine can go on with the answer to a request, and the request that makes it do so.
//!
//! The next engine gets the prompt together with what was generated, and answers as if it had generated that itself.
//! This holds only where nothing but the tokens decides how an answer goes on: not the state of a grammar or of a parser,
//! not counts of what was generated, not a text that the first engine has begun to hold back.

use kvroute_core::TokenId;

use super::{ClientRequest, fields, members};
use crate::{Endpoint, JsonError, JsonKind, JsonReader, Obstacle, Prompt, member_of};

/// An answer as far as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerSoFar<'a> {
    /// The ids of its prompt.
    pub prompt: &'a [TokenId],
    /// The ids of what was generated.
    pub generated: &'a [TokenId],
    /// The text of what was generated.
    pub text: &'a str,
}

/// The first thing in a body that stands against a continuation. A member that is repeated with a harmless value still
/// counts: engines differ in which one they heed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Obstacles(Option<Obstacle>);

// === impl Obstacles ===

impl Obstacles {
    /// Whether a member matters here and nowhere else.
    pub(super) fn concern(key: &str) -> bool {
        obstacle_of(key).is_some()
    }

    /// Reads such a member.
    pub(super) fn read(&mut self, reader: &mut JsonReader<'_>, key: &str) -> Result<(), JsonError> {
        let written = reader.skip()?;
        if let Some(obstacle) = obstacle_of(key)
            && !is_harmless(key, written)
        {
            self.0 = self.0.or(Some(obstacle));
        }
        Ok(())
    }

    /// The same with one more where it holds.
    pub(super) fn or(self, holds: bool, obstacle: Obstacle) -> Self {
        Self(self.0.or_else(|| holds.then_some(obstacle)))
    }

    pub(super) const fn first(self) -> Option<Obstacle> {
        self.0
    }
}

fn obstacle_of(key: &str) -> Option<Obstacle> {
    Some(match key {
        "response_format" | "guided_json" | "guided_regex" | "guided_choice" | "guided_grammar"
        | "guided_json_object" | "structured_outputs" | "grammar" | "json_schema" | "regex" | "ebnf"
        | "structural_tag" => Obstacle::Guided,
        "functions" | "function_call" => Obstacle::Tools,
        "best_of" | "use_beam_search" => Obstacle::Choices,
        "presence_penalty" | "frequency_penalty" => Obstacle::Penalties,
        "suffix"
        | "truncate_prompt_tokens"
        | "prompt_embeds"
        | "logits_processors"
        | "custom_logit_processor"
        | "kv_transfer_params"
        | "disaggregated_params"
        | "bootstrap_room"
        | "session_params" => Obstacle::EngineMember,
        _ => return None,
    })
}

/// Whether the member says what its absence says.
fn is_harmless(key: &str, written: &str) -> bool {
    match key {
        _ if matches!(written, "null" | "false" | "\"\"") => true,
        "best_of" => written == "1",
        "presence_penalty" | "frequency_penalty" => written.parse() == Ok(0.0),
        "response_format" => member_of(written.as_bytes(), "type") == Some("\"text\""),
        _ => false,
    }
}

// === impl ClientRequest ===

impl ClientRequest {
    /// What in the request stands against a continuation of its answer; `None` where nothing does.
    pub fn obstacle(&self) -> Option<Obstacle> {
        if self.may_start_over() { self.obstacles.first() } else { Some(self.restart_obstacle()) }
    }

    /// Whether the request may be sent again as it is as long as its client has seen nothing that was generated.
    pub fn may_start_over(&self) -> bool {
        self.endpoint.has_stream_options() && self.stream && self.choices == 1 && !self.prompt_list
    }

    /// The request that another engine goes on with.
    ///
    /// # Errors
    /// Where a stop text may have begun, or nothing is left to generate.
    pub fn continued(&self, so_far: AnswerSoFar<'_>) -> Result<Self, Obstacle> {
        if self.has_begun_stop(so_far.text) {
            return Err(Obstacle::StopBegun);
        }
        let mut set = match self.endpoint {
            Endpoint::Completions => vec![("prompt", list(so_far.prompt, so_far.generated))],
            _ => vec![
                ("messages", self.messages_with(so_far.text)?),
                ("continue_final_message", "true".to_owned()),
                ("add_generation_prompt", "false".to_owned()),
            ],
        };
        set.extend(self.bounds_behind(so_far.generated.len() as u64)?);
        let members: Vec<_> = set.iter().map(|(name, value)| (*name, Some(value.as_str()))).collect();
        let next = Self::parse(self.endpoint, members::set(&self.body, &members));
        // It may be continued as often as the first one: that it continues a message is the router's own doing.
        next.map(|next| Self { obstacles: self.obstacles, ..next }).map_err(|_| Obstacle::EngineMember)
    }

    /// What is left of the bounds behind so many tokens.
    fn bounds_behind(&self, generated: u64) -> Result<Vec<(&'static str, String)>, Obstacle> {
        let mut left = Vec::new();
        for bound in ["max_tokens", "max_completion_tokens"] {
            match self.whole_number(bound).map(|most| most.saturating_sub(generated)) {
                None => {}
                Some(0) => return Err(Obstacle::NothingLeft),
                Some(most) => left.push((bound, most.to_string())),
            }
        }
        if let Some(least) = self.whole_number("min_tokens") {
            left.push(("min_tokens", least.saturating_sub(generated).to_string()));
        }
        Ok(left)
    }

    fn restart_obstacle(&self) -> Obstacle {
        match self {
            _ if !self.endpoint.has_stream_options() => Obstacle::Endpoint,
            _ if !self.stream => Obstacle::NotAStream,
            _ if self.choices != 1 => Obstacle::Choices,
            _ => Obstacle::Prompts,
        }
    }

    fn messages_with(&self, text: &str) -> Result<String, Obstacle> {
        let Prompt::Chat(chat) = &self.prompt else { return Err(Obstacle::Endpoint) };
        let before = chat.messages.as_str().trim_end().strip_suffix(']').ok_or(Obstacle::Unread)?;
        let message = serde_json::json!({"role": "assistant", "content": text});
        Ok(format!("{before},{message}]"))
    }

    /// A member that is a whole number, not negative.
    fn whole_number(&self, name: &str) -> Option<u64> {
        let written = member_of(&self.body, name)?;
        fields::token_bound(&mut JsonReader::new(written), name).ok().flatten()
    }

    /// Whether the text ends as one of the stop texts begins. One that cannot be read may begin anywhere.
    fn has_begun_stop(&self, text: &str) -> bool {
        let Some(written) = member_of(&self.body, "stop") else { return false };
        stop_texts(written).is_none_or(|stops| stops.iter().any(|stop| has_begun(text, stop)))
    }
}

fn has_begun(text: &str, stop: &str) -> bool {
    stop.char_indices().skip(1).any(|(end, _)| text.ends_with(&stop[..end]))
}

/// A text, or a list of texts; `None` for anything else.
fn stop_texts(written: &str) -> Option<Vec<String>> {
    let mut reader = JsonReader::new(written);
    let mut stops = Vec::new();
    match reader.kind().ok()? {
        JsonKind::Null => {}
        JsonKind::String => stops.push(reader.string().ok()?.into_owned()),
        JsonKind::Array => reader
            .array(|element| {
                stops.push(element.string()?.into_owned());
                Ok::<(), JsonError>(())
            })
            .ok()?,
        _ => return None,
    }
    Some(stops)
}

fn list(prompt: &[TokenId], generated: &[TokenId]) -> String {
    serde_json::Value::from([prompt, generated].concat()).to_string()
}

#[cfg(test)]
mod tests;
