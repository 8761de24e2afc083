//! Entries of the fuzzer, which brings the answers of a worker that is not there. Not part of the API.

use bytes::Bytes;
use http::StatusCode;

use crate::http::Answer;
use crate::probe::{Answers, models};
use crate::{EngineKind, EngineLoads, Probe, ProbeError, RenderedChat, render_remote};

/// Address of the worker.
const URL: &str = "http://worker:8000";

/// Probes a worker that gives the first body to `/v1/models`, and the others to the questions that follow from it,
/// in their order. One that hides its owner is taken for `fallback`.
///
/// # Errors
/// As [`probe`](crate::probe()).
pub fn probe_answers<'a>(
    fallback: EngineKind,
    bodies: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Probe, ProbeError> {
    let mut answers =
        bodies.into_iter().map(|body| Answer { status: StatusCode::OK, body: Bytes::copy_from_slice(body) });
    let first = answers.next().unwrap_or_else(|| Answer { status: StatusCode::OK, body: Bytes::new() });
    let models = models::read(URL, &first)?;
    let engine = EngineKind::by_owner(&models.owner).unwrap_or(fallback);
    let answers: Answers = engine.spec().questions.iter().copied().zip(answers).collect();
    Ok(Probe::read(URL, engine, models, &answers))
}

/// The load that an engine tells by this answer to the question of this number, counted around.
pub fn told_load(engine: EngineKind, question: usize, answer: &[u8]) -> Option<EngineLoads> {
    let questions = engine.spec().load;
    let question = question.checked_rem(questions.len())?;
    questions[question].loads(answer)
}

/// What an engine tells of a chat with images; `None` where it names no items, or such that cannot be.
///
/// # Errors
/// It is no such answer.
pub fn rendered_chat(answer: &[u8]) -> Result<Option<RenderedChat>, serde_json::Error> {
    render_remote::read(answer)
}
