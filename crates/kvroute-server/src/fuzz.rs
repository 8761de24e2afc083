//! Entries of the fuzzer to the bodies that the admin plane is sent. Not part of the API.

use bytes::Bytes;
use kvroute_openai::RequestError;
use kvroute_router::AdviceRequest;
use kvroute_router::config::WorkerConfig;

use crate::admin_plane::{advice, workers};

/// Reads what somebody asks advice about.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn read_advice(body: &Bytes) -> Result<AdviceRequest, RequestError> {
    advice::read(body)
}

/// Reads a worker that is to be added, and the model that it is to serve.
///
/// # Errors
/// What is wrong with it, as the client is told.
pub fn read_new_worker(body: &[u8]) -> Result<(Option<String>, WorkerConfig), String> {
    workers::read(body).map_err(|refusal| refusal.to_string())
}
