//! What neither plane serves. OpenAI-shaped on both, so that whoever asks the wrong one can read why.

use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use kvroute_openai::ErrorBody;

use crate::json;

/// Code of the answer where there is no such path.
pub(crate) const PATH_NOT_FOUND: &str = "path_not_found";

/// Code of the answer where the path exists, with another method.
pub(crate) const METHOD_NOT_ALLOWED: &str = "method_not_allowed";

/// 404: no such path.
pub(crate) async fn unknown_path(method: Method, uri: Uri) -> Response {
    let message = format!("{method} {} is not served here", uri.path());
    refused(StatusCode::NOT_FOUND, message, PATH_NOT_FOUND)
}

/// 405: the path exists, with another method.
pub(crate) async fn wrong_method(method: Method, uri: Uri) -> Response {
    let message = format!("{} does not accept {method}", uri.path());
    refused(StatusCode::METHOD_NOT_ALLOWED, message, METHOD_NOT_ALLOWED)
}

fn refused(status: StatusCode, message: String, code: &'static str) -> Response {
    json::error(status, &ErrorBody::new("invalid_request_error", message).with_code(code))
}
