//! What cannot all be true, in the words of the router.

use std::borrow::Cow;

use kvroute_engine::{ComparedWorker, Contradiction, ContradictionKind, WorkerClaims, contradictions};

use crate::commands::doctor::collected::{Examined, Patient};
use crate::commands::doctor::finding::{Finding, Severity};

pub(super) fn of_worker(patient: &Patient, examined: &Examined) -> Vec<Finding> {
    contradictions(&[compared(patient, examined)]).iter().map(finding).collect()
}

/// Only what takes two.
pub(super) fn between(patients: &[Patient]) -> Vec<Finding> {
    let compared: Vec<_> = patients
        .iter()
        .filter_map(|patient| Some(compared(patient, patient.examined.as_ref().ok()?)))
        .collect();
    let found = contradictions(&compared);
    found.iter().filter(|contradiction| contradiction.workers.len() > 1).map(finding).collect()
}

fn compared<'a>(patient: &'a Patient, examined: &'a Examined) -> ComparedWorker<'a> {
    let settings = &patient.subject.settings;
    let heard = examined.streams.iter().filter_map(|stream| stream.heard?.block_size).next();
    let told = WorkerClaims {
        role: settings.role,
        block_size: settings.block_size,
        dp_ranks: settings.dp_ranks,
        block_size_in_events: heard,
    };
    ComparedWorker { name: &patient.subject.url, probe: &examined.probe, told }
}

fn finding(contradiction: &Contradiction) -> Finding {
    let severity = match contradiction.kind {
        ContradictionKind::ContextLength => Severity::Warning,
        _ => Severity::Error,
    };
    let code = Cow::Owned(format!("contradicting_{}", contradiction.kind.as_str()));
    Finding::new(severity, code, contradiction.to_string(), contradiction.kind.remedy())
}
