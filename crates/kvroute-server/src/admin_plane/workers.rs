//! Workers added, drained and removed while the router runs.
//!
//! A worker is named by its host and port, so its id has a colon in it, and a slash where a gateway's path belongs to it. A
//! colon may stand in a path as it is, a slash as `%2F`.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{HeaderValue, LOCATION};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use kvroute_core::WorkerId;
use kvroute_openai::{ErrorBody, RequestError};
use kvroute_router::config::{RankCount, SpecError, WorkerConfig, WorkerSpec};
use kvroute_router::{RosterError, RouteError, WorkerStatus};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::{AdminPlane, failed};
use crate::{body, json};

/// A worker to be added.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewWorker {
    url: String,
    model: Option<String>,
    role: Option<String>,
    kv_events: Option<String>,
    kv_replay: Option<String>,
    dp_ranks: Option<RankCount>,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The body could not be read.
    #[error("{0}")]
    Request(RouteError),
    /// A field of it cannot be what it is.
    #[error("{0}")]
    Field(SpecError),
    /// The workers that there are do not allow it.
    #[error("{0}")]
    Roster(RosterError),
}

/// `GET /api/workers`.
pub(super) async fn list(State(plane): State<AdminPlane>) -> Response {
    json::response(StatusCode::OK, &plane.router.workers())
}

/// `GET /api/discovery`.
pub(super) async fn discoveries(State(plane): State<AdminPlane>) -> Response {
    json::response(StatusCode::OK, &plane.router.discoveries())
}

/// `POST /api/workers`.
pub(super) async fn add(State(plane): State<AdminPlane>, request: Request<Body>) -> Response {
    match plane.add(request.into_body()).await {
        Ok(added) => added,
        Err(refusal) => refused(&refusal),
    }
}

/// `DELETE /api/workers/{id}`.
pub(super) async fn remove(
    State(plane): State<AdminPlane>,
    id: Result<Path<String>, PathRejection>,
) -> Response {
    plane.change(id, |router, id| router.remove_worker(id))
}

/// `POST /api/workers/{id}/drain`.
pub(super) async fn drain(
    State(plane): State<AdminPlane>,
    id: Result<Path<String>, PathRejection>,
) -> Response {
    plane.change(id, |router, id| router.drain_worker(id))
}

/// `POST /api/workers/{id}/undrain`.
pub(super) async fn undrain(
    State(plane): State<AdminPlane>,
    id: Result<Path<String>, PathRejection>,
) -> Response {
    plane.change(id, |router, id| router.undrain_worker(id))
}

// === impl AdminPlane ===

impl AdminPlane {
    async fn add(&self, body: Body) -> Result<Response, Refusal> {
        let body = body::read(body, self.body_limits()).await.map_err(Refusal::Request)?;
        let (model, worker) = read(&body)?;
        let id = self.router.add_worker(model.as_deref(), worker).map_err(Refusal::Roster)?;
        let mut response = self.shown(&id, StatusCode::CREATED);
        let path = format!("/api/workers/{}", utf8_percent_encode(id.as_str(), NON_ALPHANUMERIC));
        if let Ok(location) = HeaderValue::from_str(&path) {
            response.headers_mut().insert(LOCATION, location);
        }
        Ok(response)
    }

    fn change(
        &self,
        id: Result<Path<String>, PathRejection>,
        change: impl FnOnce(&kvroute_router::Router, &WorkerId) -> Result<(), RosterError>,
    ) -> Response {
        let Ok(Path(id)) = id else {
            let error = RequestError::invalid_field("id", "the id is not UTF-8 after percent-decoding");
            return failed(&RouteError::bad_request(error));
        };
        let id = WorkerId::new(id);
        match change(&self.router, &id) {
            Ok(()) => self.shown(&id, StatusCode::OK),
            Err(error) => refused(&Refusal::Roster(error)),
        }
    }

    /// The worker as it is now. One that had nothing to finish is gone by now, which is as good as that it leaves.
    fn shown(&self, id: &WorkerId, status: StatusCode) -> Response {
        let shown: Option<WorkerStatus> = self.router.worker(id);
        match shown {
            Some(shown) => json::response(status, &shown),
            None => json::response(
                status,
                &serde_json::json!({"id": id.as_str(), "state": "draining", "running": 0}),
            ),
        }
    }
}

/// The worker that the body of a request adds, and the model that it is to serve.
pub(crate) fn read(body: &[u8]) -> Result<(Option<String>, WorkerConfig), Refusal> {
    let new: NewWorker = serde_json::from_slice(body).map_err(|error| {
        let message = format!(
            "{error}; send {{\"url\": \"http://10.0.0.1:8000\"}}, and model, role, kv_events, kv_replay or dp_ranks where \
             they matter"
        );
        Refusal::Request(RouteError::bad_request(RequestError::invalid_json(message)))
    })?;
    let (model, spec) = new.split();
    Ok((model, spec.read().map_err(Refusal::Field)?))
}

// === impl NewWorker ===

impl NewWorker {
    /// The model that it is to serve, and what it is.
    fn split(self) -> (Option<String>, WorkerSpec) {
        let Self { url, model, role, kv_events, kv_replay, dp_ranks } = self;
        (model, WorkerSpec { url, role, kv_events, kv_replay, dp_ranks })
    }
}

fn refused(refusal: &Refusal) -> Response {
    let (status, code, param) = match refusal {
        Refusal::Request(error) => return failed(error),
        Refusal::Field(error) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_worker", Some(error.field)),
        Refusal::Roster(error) => of_roster(error),
    };
    let kind = if status.is_server_error() { "server_error" } else { "invalid_request_error" };
    let mut body = ErrorBody::new(kind, refusal.to_string()).with_code(code);
    if let Some(param) = param {
        body = body.with_param(param);
    }
    json::error(status, &body)
}

const fn of_roster(error: &RosterError) -> (StatusCode, &'static str, Option<&'static str>) {
    match error {
        RosterError::Exists(_) => (StatusCode::CONFLICT, "worker_exists", Some("url")),
        RosterError::Leaving(_) => (StatusCode::CONFLICT, "worker_leaving", None),
        RosterError::Unknown(_) => (StatusCode::NOT_FOUND, "worker_not_found", None),
        RosterError::UnknownModel { .. } => (StatusCode::NOT_FOUND, "model_not_found", Some("model")),
        RosterError::ModelMissing { .. } => (StatusCode::BAD_REQUEST, "model_missing", Some("model")),
        RosterError::NoHandover { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_worker", Some("role")),
        RosterError::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_added_is_told_apart_by_its_status() {
        let id = || WorkerId::new("a:1");
        for (error, status) in [
            (RosterError::Exists(id()), 409),
            (RosterError::Leaving(id()), 409),
            (RosterError::Unknown(id()), 404),
            (RosterError::UnknownModel { model: "m".to_owned(), served: "n".to_owned() }, 404),
            (RosterError::ModelMissing { served: "n".to_owned() }, 400),
            (RosterError::NoHandover { worker: id() }, 422),
            (RosterError::Stopping, 503),
        ] {
            assert_eq!(refused(&Refusal::Roster(error.clone())).status().as_u16(), status, "{error}");
        }
    }
}
