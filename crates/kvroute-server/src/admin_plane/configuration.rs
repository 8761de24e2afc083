//! `GET /api/config`: what the router was told, without its secrets.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::AdminPlane;
use crate::json;

/// The configuration that counts now, in the shape of the file.
pub(super) async fn read(State(plane): State<AdminPlane>) -> Response {
    json::response(StatusCode::OK, &plane.live.settings.load().shown)
}
