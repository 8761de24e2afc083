//! What one simulated engine is like.

mod flavour;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use kvroute_core::{BlockSize, WorkerRole};
use kvroute_zmtp::{Endpoint, InvalidEndpoint};

use crate::faults::Faults;

pub use flavour::{Flavour, UnsupportedFlavour};

/// The longest context that is assumed when none is given and the cache would hold more.
const LONGEST_DEFAULT_CONTEXT: u64 = 131_072;

/// Settings of one engine. [`SimConfig::default`] is a fast engine without delays on free loopback ports.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Where HTTP is served; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The one model that is served.
    pub model: String,
    /// Whose wire formats are spoken.
    pub flavour: Flavour,
    /// What is done of a request, where a service is split into prefill and decode.
    pub role: WorkerRole,
    /// Data-parallel ranks, at least 1: each has a cache and events of its own.
    pub dp_ranks: u32,
    /// Blocks of the KV cache, at least 1.
    pub kv_blocks: u32,
    /// Tokens in one block.
    pub block_size: BlockSize,
    /// Longest prompt and answer together, in tokens. At most what the cache holds, which is also the default
    /// up to 131,072.
    pub max_model_len: Option<u32>,
    /// Prompt tokens computed a second, one prompt at a time; 0 takes no time.
    pub prefill_tps: u64,
    /// Tokens generated a second by each running sequence; 0 takes no time.
    pub decode_tps: u64,
    /// Tokens of context that a step of the running sequences reads a second: what makes a step longer the more KV
    /// its sequences have. 0 takes no time.
    pub kv_read_tps: u64,
    /// Prompt tokens that a step computes beside the running sequences' next tokens, as engines with chunked prefill
    /// do: prompts and answers then hold up each other. 0 computes prompts apart and holds up nobody.
    pub step_tokens: u32,
    /// Slots of llama.cpp, which share the cache in equal parts; at least 1.
    pub slots: u32,
    /// Port where a prefill engine hands KV over; 0 takes a free one.
    pub transfer_port: u16,
    /// How long a prefill engine keeps KV for another engine that does not come.
    pub lease: Duration,
    /// How long a decode engine waits for KV.
    pub transfer_patience: Duration,
    /// Whether vLLM's decode engine computes prompts whose KV is lost, instead of failing with status 500 (its
    /// `kv_load_failure_policy`).
    pub recomputes_lost_kv: bool,
    /// Where KV events are published. Engines that publish none have no socket.
    pub kv_events: EventEndpoint,
    /// Where missed KV events are replayed.
    pub kv_replay: EventEndpoint,
    /// Whether the first event message, number 0, is a clear, as SGLang publishes it at its start in any case.
    pub announces_start: bool,
    /// Tokens that stand for an image in a chat; 0 for a model that sees none. vLLM only.
    pub image_tokens: u32,
    /// Whether vLLM's render endpoint is served (its `--enable-scale-out`).
    pub scale_out: bool,
    /// Whether usage tells the cached tokens (vLLM's `--enable-prompt-tokens-details`).
    pub prompt_tokens_details: bool,
    /// Seed of the words in answers and of the block ids: equal seeds give equal answers to equal prompts.
    pub seed: u64,
    /// What goes wrong from the start; changed at run time by `POST /faults`.
    pub faults: Faults,
}

/// Where one of the event sockets is bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EventEndpoint {
    /// A free port of the HTTP host, announced at `/kv_event_sources`.
    #[default]
    Auto,
    /// No such socket.
    None,
    /// This address. It is always bound, where vLLM itself would connect to a concrete host.
    Address(Endpoint),
}

/// The text is neither `auto` nor `none` nor an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source} (or auto, none)")]
pub struct InvalidEventEndpoint {
    source: InvalidEndpoint,
}

// === impl SimConfig ===

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            model: String::from("sim"),
            flavour: Flavour::Vllm,
            role: WorkerRole::Aggregated,
            dp_ranks: 1,
            kv_blocks: 2048,
            block_size: BlockSize::DEFAULT,
            max_model_len: None,
            prefill_tps: 0,
            decode_tps: 0,
            kv_read_tps: 0,
            step_tokens: 0,
            slots: 4,
            transfer_port: 0,
            lease: Duration::from_secs(30),
            transfer_patience: Duration::from_secs(30),
            recomputes_lost_kv: false,
            kv_events: EventEndpoint::Auto,
            kv_replay: EventEndpoint::Auto,
            announces_start: false,
            image_tokens: 0,
            scale_out: false,
            prompt_tokens_details: true,
            seed: 0,
            faults: Faults::default(),
        }
    }
}

impl SimConfig {
    /// Tokens that the whole cache holds.
    pub(crate) fn capacity(&self) -> u64 {
        u64::from(self.kv_blocks) * u64::from(self.block_size.get())
    }

    /// The longest prompt and answer together.
    pub(crate) fn context(&self) -> u64 {
        match self.max_model_len {
            Some(tokens) => u64::from(tokens),
            None => self.room().min(LONGEST_DEFAULT_CONTEXT),
        }
    }

    /// Whether a new process publishes a clear first.
    pub(crate) fn tells_start(&self) -> bool {
        self.announces_start || self.flavour == Flavour::Sglang
    }

    /// Tokens that one sequence can have of the cache.
    fn room(&self) -> u64 {
        match self.flavour {
            Flavour::LlamaCpp => self.capacity() / u64::from(self.slots.max(1)),
            _ => self.capacity(),
        }
    }

    /// What is wrong with the settings, before any port is bound.
    pub(crate) fn validate(&self) -> Result<(), String> {
        self.faults.validate().map_err(|problem| problem.to_string())?;
        if self.faults.once.is_some() {
            return Err(String::from("faults.once happens to a running engine; post it to /faults"));
        }
        self.validate_kind()?;
        if self.kv_blocks == 0 {
            return Err(String::from("kv_blocks is 0; an engine needs at least 1 block"));
        }
        if self.context() < 2 {
            return Err(String::from(
                "the context holds less than 2 tokens; raise max_model_len or kv_blocks",
            ));
        }
        if self.context() > self.room() {
            return Err(format!(
                "max_model_len of {} tokens is more than the cache holds ({} blocks of {} make {}); lower it or raise kv_blocks",
                self.context(),
                self.kv_blocks,
                self.block_size,
                self.room()
            ));
        }
        if matches!(self.kv_events, EventEndpoint::Address(_)) && !self.flavour.publishes() {
            return Err(format!(
                "kv_events has an address, but {} publishes no events on a socket; leave it out",
                self.flavour
            ));
        }
        if self.transfer_port != 0 && self.role != WorkerRole::Prefill {
            let role = self.role.as_str();
            return Err(format!("transfer_port is given, but role is {role}; use prefill or leave it out"));
        }
        if self.kv_events == EventEndpoint::None && matches!(self.kv_replay, EventEndpoint::Address(_)) {
            return Err(String::from("kv_replay has an address but kv_events is none; give both or neither"));
        }
        Ok(())
    }

    fn validate_kind(&self) -> Result<(), String> {
        if self.role != WorkerRole::Aggregated && self.flavour == Flavour::LlamaCpp {
            let role = self.role.as_str();
            return Err(format!("role is {role}, but llamacpp hands no kv over; use aggregated"));
        }
        if self.dp_ranks == 0 {
            return Err(String::from("dp_ranks is 0; an engine has at least 1"));
        }
        if self.dp_ranks > 1 && !self.flavour.publishes() {
            return Err(format!(
                "dp_ranks is {}, but {} is simulated with 1 only",
                self.dp_ranks, self.flavour
            ));
        }
        if self.image_tokens > 0 && self.flavour != Flavour::Vllm {
            return Err(format!(
                "image_tokens is {}, but {} is simulated without images",
                self.image_tokens, self.flavour
            ));
        }
        if self.slots == 0 {
            return Err(String::from("slots is 0; llamacpp needs at least 1"));
        }
        Ok(())
    }
}

// === impl EventEndpoint ===

impl FromStr for EventEndpoint {
    type Err = InvalidEventEndpoint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            address => match address.parse() {
                Ok(endpoint) => Ok(Self::Address(endpoint)),
                Err(source) => Err(InvalidEventEndpoint { source }),
            },
        }
    }
}

impl fmt::Display for EventEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::Address(endpoint) => endpoint.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_endpoints_are_words_or_addresses() {
        for text in ["auto", "none", "tcp://*:5557"] {
            assert_eq!(text.parse::<EventEndpoint>().unwrap().to_string(), text);
        }
        let message = "5557".parse::<EventEndpoint>().unwrap_err().to_string();
        assert!(message.contains("5557") && message.contains("auto, none"), "{message}");
    }

    #[test]
    fn a_context_beyond_the_cache_is_refused() {
        let config = SimConfig { kv_blocks: 4, max_model_len: Some(65), ..SimConfig::default() };
        assert!(config.validate().unwrap_err().contains("65 tokens"));
        assert_eq!(SimConfig { max_model_len: Some(64), ..config }.validate(), Ok(()));
    }

    #[test]
    fn a_replay_address_without_events_is_refused() {
        let kv_replay = "tcp://127.0.0.1:5558".parse().unwrap();
        let config = SimConfig { kv_events: EventEndpoint::None, kv_replay, ..SimConfig::default() };
        assert!(config.validate().unwrap_err().contains("kv_replay"));
    }
}
