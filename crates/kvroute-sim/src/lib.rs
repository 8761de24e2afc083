//! A simulated inference engine that speaks the wire of vLLM, SGLang, TensorRT-LLM or llama.cpp: HTTP, KV events and
//! metrics, with a prefix cache, block ids and timing of its own; whole, or split into prefill and decode.
//!
//! It stands in for real engines in the demo and in tests, so it must not agree with the router by
//! construction: it shares neither the router's index nor its block hashes, and `GET /stats` tells in tokens what
//! it truly computed and reused. What it does not simulate is the model: words are drawn from the vocabulary, and
//! an answer ends at its token limit only.
//!
//! The cache and the scheduler are pure state machines. One task a rank drives them and owns the event socket; HTTP
//! handlers talk to it by channels, so a slow client or subscriber never holds up the engine. [`VirtualEngine`] is the
//! same without sockets, for whoever brings a clock of his own.

#![forbid(unsafe_code)]

mod cache;
mod config;
mod control;
mod encoder;
mod engine;
mod events;
mod faults;
mod http;
mod misreport;
mod mix;
mod process;
mod ranks;
mod runner;
mod scheduler;
mod stats;
mod tokenizer;
mod transfer;
mod unseen;
mod virtual_engine;
mod words;

pub use config::{EventEndpoint, Flavour, InvalidEventEndpoint, SimConfig, UnsupportedFlavour};
pub use encoder::PromptEncoder;
pub use engine::{SimEngine, StartError};
pub use faults::{Faults, Incident, InvalidFaults};
/// What an engine does of a request, where a service is split.
pub use kvroute_core::WorkerRole as SimRole;
pub use misreport::{OddReport, PrivateReport};
pub use stats::EngineStats;
pub use tokenizer::TokenizerEncoder;
pub use unseen::UnseenPeriod;
pub use virtual_engine::{VirtualEngine, VirtualId, VirtualProgress, VirtualToken};
