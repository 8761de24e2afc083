//! JSON answers of both planes.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Response, StatusCode};
use kvroute_openai::ErrorBody;
use serde::Serialize;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A serialised value. Values that cannot be serialised are a fault of this program and say so.
pub(crate) fn response<T: Serialize>(status: StatusCode, value: &T) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(bytes) => typed(status, bytes),
        Err(error) => {
            tracing::error!(%error, "cannot serialise an answer");
            typed(StatusCode::INTERNAL_SERVER_ERROR, b"{}".to_vec())
        }
    }
}

/// An OpenAI-shaped error.
pub(crate) fn error(status: StatusCode, body: &ErrorBody) -> Response<Body> {
    typed(status, body.to_json())
}

fn typed(status: StatusCode, bytes: impl Into<Body>) -> Response<Body> {
    let mut answer = Response::new(bytes.into());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    answer
}
