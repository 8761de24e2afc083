//! Errors by which an engine's server tells that the engine behind it is gone.
//!
//! Such a stream ends in good form, with an error and an end mark, and yet it is as broken as one whose connection breaks.

/// What vLLM says once the process that computes has ended.
const SIGNS: [&str; 2] = ["EngineCore encountered an issue", "EngineDeadError"];

/// Whether an error tells it.
pub(super) fn is_told(error: &str) -> bool {
    SIGNS.iter().any(|sign| error.contains(sign))
}
