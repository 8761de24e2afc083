//! What is asked: each request follows from its number and the seed of the run, whoever sends it and when.

use std::ops::Range;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};

use super::world::{Cast, Manners, Setting};

/// One request as it will be sent.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Its number.
    pub(crate) number: u64,
    pub(crate) cast: &'static Cast,
    pub(crate) path: &'static str,
    pub(crate) body: Value,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Tokens of its prompts, where they are sent as ids.
    pub(crate) prompt: Option<u64>,
    pub(crate) is_list: bool,
    /// No part of it can have been computed before, not even for another prompt of the same request.
    pub(crate) is_salted: bool,
    pub(crate) patience: Patience,
}

/// How long its client stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    ToTheEnd,
    /// Leaves after so many milliseconds, unless the answer has begun.
    Milliseconds(u64),
    /// Leaves after so many pieces of the answer.
    Pieces(u32),
}

/// Prompts that return, each pool's own.
const KNOWN: u64 = 240;
/// Those that are asked for most at one time.
const HOT: u64 = 16;
const BEGINNINGS: u64 = 5;
const SESSIONS: u64 = 30;

/// Draws what one request is like.
struct Draw {
    rng: ChaCha8Rng,
    seed: u64,
    number: u64,
    cast: &'static Cast,
}

// === impl Plan ===

impl Plan {
    pub(crate) fn of(setting: &'static Setting, seed: u64, number: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_mul(1_000_003) ^ number);
        let cast = cast_of(setting, rng.random_range(0..100));
        Draw { rng, seed, number, cast }.plan()
    }

    pub(crate) fn id(&self) -> String {
        format!("run-{}", self.number)
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.body["stream"] == true
    }

    /// Whether its answer tells usage in the words of the completions endpoints.
    pub(crate) fn tells_usage(&self) -> bool {
        let is_asked = !self.is_stream() || self.body["stream_options"]["include_usage"] == true;
        is_asked && self.path.ends_with("completions")
    }
}

fn cast_of(setting: &'static Setting, mut drawn: u64) -> &'static Cast {
    let is_drawn = |cast: &&Cast| match drawn.checked_sub(cast.share) {
        Some(rest) => {
            drawn = rest;
            false
        }
        None => true,
    };
    setting.casts.iter().find(is_drawn).unwrap()
}

// === impl Draw ===

impl Draw {
    fn plan(mut self) -> Plan {
        let (path, mut body, prompt, is_list) = self.question();
        let is_stream = self.one_in(2);
        body["model"] = json!(self.cast.model);
        body["stream"] = json!(is_stream);
        if is_stream && path.ends_with("completions") && !self.one_in(3) {
            body["stream_options"] = json!({"include_usage": true});
        }
        let patience = self.patience(is_stream);
        if matches!(patience, Patience::Pieces(_)) {
            // Longer than it takes to notice that nobody reads any more.
            body["max_tokens"] = json!(40);
        }
        let mut headers = self.wishes();
        let is_salted = (patience != Patience::ToTheEnd || is_list) && !self.goes_to_a_wild_one(&mut headers);
        if is_salted {
            body["cache_salt"] = json!(format!("alone-{}", self.number));
            if let Some(lists) = body["prompt"].as_array_mut().filter(|_| is_list) {
                lists.iter_mut().enumerate().for_each(|(position, list)| list[0] = json!(300 + position));
            }
        }
        Plan {
            number: self.number,
            cast: self.cast,
            path,
            body,
            headers,
            prompt,
            is_list,
            is_salted,
            patience,
        }
    }

    /// Where to, the body, how many tokens, whether there are several prompts.
    fn question(&mut self) -> (&'static str, Value, Option<u64>, bool) {
        let limits = |rng: &mut ChaCha8Rng| {
            let max_tokens = rng.random_range(1..7);
            let choices = if rng.random_range(0..12) == 0 { rng.random_range(2..4) } else { 1 };
            json!({"max_tokens": max_tokens, "n": choices})
        };
        let mut body = limits(&mut self.rng);
        match self.rng.random_range(0..100) {
            0..4 => {
                let lists: Vec<_> = (0..self.rng.random_range(2..4)).map(|_| self.prompt()).collect();
                let tokens = lists.iter().map(|list| list.len() as u64).sum();
                body["prompt"] = json!(lists);
                ("/v1/completions", body, Some(tokens), true)
            }
            4..7 => {
                // More than any engine's context: it refuses before it computes anything.
                body["max_tokens"] = json!(100_000_000);
                let prompt = self.prompt();
                body["prompt"] = json!(prompt);
                ("/v1/completions", body, Some(prompt.len() as u64), false)
            }
            7..15 => {
                body["prompt"] = json!(self.text());
                ("/v1/completions", body, None, false)
            }
            15..30 => {
                body["messages"] = json!([{"role": "user", "content": self.text()}]);
                ("/v1/chat/completions", body, None, false)
            }
            30..32 => ("/v1/responses", json!({"input": self.text(), "max_output_tokens": 3}), None, false),
            32..34 => {
                let messages = json!([{"role": "user", "content": self.text()}]);
                ("/v1/messages", json!({"messages": messages, "max_tokens": 3}), None, false)
            }
            _ => {
                let prompt = self.prompt();
                body["prompt"] = json!(prompt);
                ("/v1/completions", body, Some(prompt.len() as u64), false)
            }
        }
    }

    /// Mostly one that was asked for before, or a part of it; some end on the boundary of a block.
    fn prompt(&mut self) -> Vec<u32> {
        let (known, cut) = (self.known(), self.rng.random_range(0..100));
        let mut prompt = words_of(self.seed, self.cast, known);
        match cut {
            0..12 => prompt.extend(random_words(&mut self.rng, 1..90)),
            12..30 => prompt.truncate((prompt.len() / 16 * 16).max(16)),
            30..36 => prompt.truncate(prompt.len() / 2 + 1),
            _ => {}
        }
        prompt
    }

    fn text(&mut self) -> String {
        let known = self.known();
        format!("tell me of number {known} and its friends, who are many. ").repeat(1 + (known % 7) as usize)
    }

    /// Those asked for most change in the course of the run, so that all have been away for a while.
    fn known(&mut self) -> u64 {
        match self.one_in(3) {
            true => self.rng.random_range(0..KNOWN),
            false => (self.number / 90 + self.rng.random_range(0..HOT)) % KNOWN,
        }
    }

    fn patience(&mut self, is_stream: bool) -> Patience {
        match self.rng.random_range(0..100) {
            0..6 => Patience::Milliseconds(self.rng.random_range(0..12)),
            6..16 if is_stream => Patience::Pieces(self.rng.random_range(1..4)),
            _ => Patience::ToTheEnd,
        }
    }

    fn wishes(&mut self) -> Vec<(&'static str, String)> {
        let mut headers = vec![("x-request-id", format!("run-{}", self.number))];
        if self.one_in(2) {
            headers.push(("x-session-id", (self.number % SESSIONS).to_string()));
        }
        if self.one_in(12) {
            let weights = ["temperature=1", "request_weight=9", "device_weight=0.1", "recent_weight=0"];
            headers.push(("x-kvroute-override", weights[self.rng.random_range(0..weights.len())].to_owned()));
        }
        headers
    }

    /// Names a worker of which nobody demands exactness, where there is one and the draw says so.
    fn goes_to_a_wild_one(&mut self, headers: &mut Vec<(&'static str, String)>) -> bool {
        let wild: Vec<_> = (0..self.cast.manners.len())
            .filter(|number| self.cast.manners[*number] != Manners::Calm)
            .collect();
        if wild.len() == self.cast.manners.len() {
            return true;
        }
        // The last one dies in the course of the run, and whoever names it waits.
        let Some(worker) = wild.len().checked_sub(1).filter(|_| self.one_in(2)) else { return false };
        headers.push((PIN, wild[self.rng.random_range(0..worker)].to_string()));
        true
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.rng.random_range(0..many) == 0
    }
}

/// A header whose value is the number of an engine, until the engine's name is known.
pub(crate) const PIN: &str = "x-kvroute-worker";

/// The words of a prompt that returns: a beginning that it shares with others, and words of its own.
fn words_of(seed: u64, cast: &Cast, known: u64) -> Vec<u32> {
    let pool = u64::from(cast.model.as_bytes()[0]);
    let mut beginning = ChaCha8Rng::seed_from_u64(seed ^ (pool << 20) ^ (known % BEGINNINGS));
    let mut own = ChaCha8Rng::seed_from_u64(seed ^ (pool << 20) ^ (1 + known) << 8);
    let mut words = random_words(&mut beginning, 30..160);
    words.extend(random_words(&mut own, 5..110));
    words
}

/// Token ids as text would have them: no special ones.
fn random_words(rng: &mut ChaCha8Rng, count: Range<usize>) -> Vec<u32> {
    let count = rng.random_range(count);
    (0..count).map(|_| rng.random_range(300..2_000)).collect()
}
