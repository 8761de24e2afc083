//! How engines other than vLLM tell an answer. vLLM's shapes are structs of their own, because the fast engine of
//! benchmarks speaks them.

mod llamacpp;
mod sglang;
mod trtllm;

use kvroute_core::TokenId;
use serde_json::{Value, json};

use super::generate::Answer;
use super::usage::Figures;
use super::whole::Choice;
use crate::config::Flavour;

/// A piece of one choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) choice: usize,
    pub(super) text: &'a str,
    pub(super) id: TokenId,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
}

/// The JSON of an engine's answers, and the order in which a stream has it.
pub(super) trait Dialect: Sync {
    /// A whole answer.
    fn whole(&self, answer: &Answer, choices: &[Choice]) -> Value;

    /// What comes ahead of everything.
    fn opening(&self, _: &Answer) -> Option<Value> {
        None
    }

    /// What comes ahead of the first token of a choice.
    fn begin(&self, answer: &Answer, choice: usize) -> Vec<Value>;

    /// One token, already counted.
    fn piece(&self, answer: &Answer, piece: Piece<'_>) -> Vec<Value>;

    /// What comes behind the last token of a choice.
    fn end(&self, answer: &Answer, choice: usize) -> Option<Value>;

    /// The chunk of usage, where one comes.
    fn usage(&self, answer: &Answer) -> Option<Value>;

    /// Whether the first chunk of a choice has a blank at the end of its line.
    fn pads_begin(&self) -> bool {
        false
    }
}

/// The dialect of an engine; `None` for vLLM.
pub(super) fn of(flavour: Flavour) -> Option<&'static dyn Dialect> {
    match flavour {
        Flavour::Vllm => None,
        Flavour::Sglang => Some(&sglang::Sglang),
        Flavour::TrtLlm => Some(&trtllm::TrtLlm),
        Flavour::LlamaCpp => Some(&llamacpp::LlamaCpp),
    }
}

/// The cached tokens of some usage; `None` where nothing is told. A number that JSON's numbers do not hold is told as the
/// nearest one that they do.
fn cached(figures: Figures) -> Option<Value> {
    let told = figures.cached?;
    Some(serde_json::to_value(told).unwrap_or_else(|_| json!(u128::from(u64::MAX) as f64 + 1.0)))
}
