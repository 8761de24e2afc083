//! A request's token ids as the engine counts them: tokenizer and chat template from a model folder.
//!
//! Reuse is accounted in tokens, so the router's count must be the engine's count. A chat passes three steps,
//! each of which an engine may do in its own way: the chat is normalised ([`ChatRules`]), the model's Jinja
//! template makes text of it, and the tokenizer makes ids of the text. The template runs here as Python runs
//! it, down to how a float is printed, because one different byte moves every id behind it.

#![forbid(unsafe_code)]

mod encoder;
mod error;
mod folder;
mod model;
mod python;
mod rules;
mod sglang;
mod template;
mod tokenizer;
mod tree;
mod vllm;

pub use encoder::CacheCounts;
pub use error::{EncodeError, EncodeErrorKind, LoadError};
pub use rules::ChatRules;
pub use tokenizer::PromptTokenizer;
