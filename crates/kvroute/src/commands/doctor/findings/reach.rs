//! Whether there is an engine at all, with the model that is meant.

use kvroute_engine::{Probe, ProbeError};

use crate::commands::doctor::finding::Finding;
use crate::commands::doctor::subjects::Subject;

pub(super) fn of_error(error: &ProbeError) -> Finding {
    let message = error.to_string();
    match error {
        ProbeError::Unreachable { .. } => Finding::error(
            "unreachable",
            message,
            "start the engine, or correct the address; it must listen on more than its own loopback",
        ),
        ProbeError::Loading { .. } => {
            Finding::warning("loading", message, "wait until it answers /v1/models, and ask again")
        }
        ProbeError::Unauthorized { .. } => {
            Finding::error("unauthorized", message, "start the engine without an API key, behind the router")
        }
        ProbeError::NotOpenAi { .. } => Finding::error(
            "not_openai",
            message,
            "name the port of an engine's OpenAI server, without a path behind it",
        ),
    }
}

/// The model that is asked for must be there.
pub(super) fn of_models(subject: &Subject, probe: &Probe) -> Vec<Finding> {
    let names: Vec<_> = probe.models.iter().map(|model| model.id.as_str()).collect();
    let wanted = subject.model.as_deref();
    let is_served = |wanted: &str| {
        probe
            .models
            .iter()
            .any(|model| model.id == wanted || model.aliases.iter().any(|alias| alias == wanted))
    };
    match wanted {
        Some(wanted) if !is_served(wanted) => vec![Finding::error(
            "model_missing",
            format!("serves {}, and not {wanted}", names.join(", ")),
            "correct pool.model, or put the worker into the pool of its model",
        )],
        None if probe.models.iter().all(|model| model.parent.is_some()) => vec![Finding::error(
            "no_base_model",
            format!("lists only adapters: {}", names.join(", ")),
            "set pool.model",
        )],
        _ => Vec::new(),
    }
}
