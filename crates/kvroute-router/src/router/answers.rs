//! Answers that the router makes itself.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};

use crate::error::{Origin, RouteError};
use crate::headers::REQUEST_ID;
use crate::relay::RelayBody;

/// An error as its client reads it.
pub(super) fn error_response(
    error: &RouteError,
    request_id: &HeaderValue,
    is_trusted: bool,
) -> Response<RelayBody> {
    let status = error.status();
    match error.origin() {
        Origin::Client => tracing::debug!(%status, %error, "request refused"),
        _ => tracing::warn!(%status, %error, "request failed"),
    }
    let mut response = json_response(status, error.body_for(is_trusted).to_json(), request_id);
    response.headers_mut().extend(error.headers());
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(after) = error.retry_after() {
        let seconds = after.as_secs_f64().ceil() as u64;
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    }
    response
}

fn json_response(status: StatusCode, json: Bytes, request_id: &HeaderValue) -> Response<RelayBody> {
    let mut response = Response::new(RelayBody::whole(json));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(REQUEST_ID, request_id.clone());
    response
}
