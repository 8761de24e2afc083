//! What is wrong, from what was collected. Nothing here asks anybody.

mod conformance;
mod contradictions;
mod events;
mod identity;
mod reach;
mod telemetry;

use super::collected::Patient;
use super::finding::Finding;

/// Everything to know about one worker.
pub(super) fn of_worker(patient: &Patient) -> Vec<Finding> {
    let examined = match &patient.examined {
        Ok(examined) => examined,
        Err(error) => return vec![reach::of_error(error)],
    };
    let mut found = reach::of_models(&patient.subject, &examined.probe);
    found.extend(contradictions::of_worker(patient, examined));
    found.extend(telemetry::of_probe(examined));
    found.extend(events::of_streams(&patient.subject, examined));
    found.extend(conformance::of_trial(examined));
    found.extend(identity::of_parity(examined));
    found
}

/// What workers contradict each other in.
pub(super) fn of_fleet(patients: &[Patient]) -> Vec<Finding> {
    contradictions::between(patients)
}

#[cfg(test)]
mod tests;
