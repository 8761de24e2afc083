//! What clients of the models talk to.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use axum::{Router, body::Body};
use kvroute_openai::Endpoint;
use kvroute_router::{Inbound, RouteError, Router as KvRouter};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::keys::ApiKey;
use crate::live::{Live, Settings};
use crate::placed::PlacedBody;
use crate::trust::TrustedPeer;
use crate::{body, json, not_served};

/// State of the data plane's handlers.
#[derive(Clone)]
pub(crate) struct DataPlane {
    /// The router behind the plane.
    pub(crate) router: Arc<KvRouter>,
    /// What may change while the server runs.
    pub(crate) live: Arc<Live>,
}

/// What a request has been let in with.
struct Admitted<'a> {
    key: Option<&'a ApiKey>,
    /// Its place among those that are served at once, where those are counted.
    place: Option<OwnedSemaphorePermit>,
}

/// The routes of the data plane.
pub(crate) fn app(state: DataPlane) -> Router {
    let mut app = Router::new();
    for endpoint in Endpoint::ALL {
        app = app.route(endpoint.path(), inference(endpoint));
    }
    app.route("/v1/models", get(models))
        .route("/health", get(live))
        .route("/ready", get(ready))
        .route("/live", get(live))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(state)
}

fn inference(endpoint: Endpoint) -> MethodRouter<DataPlane> {
    post(move |State(plane): State<DataPlane>, request: Request| async move {
        plane.infer(endpoint, request).await
    })
}

async fn models(State(plane): State<DataPlane>, mut headers: HeaderMap) -> Response {
    match plane.live.settings.load().admit(&mut headers) {
        Ok(_) => json::response(StatusCode::OK, &plane.router.models()),
        Err(error) => {
            let mut refusal = json::error(error.status(), &error.public_body());
            refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            refusal
        }
    }
}

async fn ready(State(plane): State<DataPlane>) -> Response {
    match plane.router.readiness(plane.live.settings.load().ready) {
        Ok(()) => json::response(StatusCode::OK, &serde_json::json!({"status": "ready"})),
        Err(reason) => json::response(
            StatusCode::SERVICE_UNAVAILABLE,
            &serde_json::json!({"status": "not ready", "reason": reason}),
        ),
    }
}

async fn live() -> Response {
    json::response(StatusCode::OK, &serde_json::json!({"status": "live"}))
}

async fn unknown_path(
    State(plane): State<DataPlane>,
    headers: HeaderMap,
    method: Method,
    uri: Uri,
) -> Response {
    plane.unmatched(&headers, not_served::PATH_NOT_FOUND, not_served::unknown_path(method, uri).await)
}

async fn wrong_method(
    State(plane): State<DataPlane>,
    headers: HeaderMap,
    method: Method,
    uri: Uri,
) -> Response {
    plane.unmatched(&headers, not_served::METHOD_NOT_ALLOWED, not_served::wrong_method(method, uri).await)
}

// === impl DataPlane ===

impl DataPlane {
    async fn infer(&self, endpoint: Endpoint, request: Request) -> Response {
        let received = Instant::now();
        let (mut head, body) = request.into_parts();
        let unread = self.router.arrival(endpoint, &head.headers, received);
        let settings = self.live.settings.load_full();
        let Admitted { key, place } = match settings.let_in(&mut head.headers, received) {
            Ok(admitted) => admitted,
            Err(error) => return self.router.refuse(unread, &error).map(Body::new),
        };
        match body::read_behind(&head.headers, body, settings.body).await {
            Ok(body) => {
                let is_trusted_peer = head.extensions.get::<TrustedPeer>().is_some();
                let trusted = is_trusted_peer || key.is_some_and(|key| key.is_trusted);
                let tenant = key.and_then(|key| key.tenant.clone());
                let headers = head.headers;
                let inbound = Inbound { arrival: unread.read(), headers, body, trusted, tenant };
                self.route(inbound, place).await
            }
            Err(error) => self.router.refuse(unread, &error).map(Body::new),
        }
    }

    /// Counts a request for what is not served, and names it in its answer.
    fn unmatched(&self, headers: &HeaderMap, code: &'static str, mut answer: Response) -> Response {
        let request_id = self.router.count_unmatched(headers, answer.status(), code);
        answer.headers_mut().insert("x-request-id", request_id);
        answer
    }

    async fn route(&self, inbound: Inbound, place: Option<OwnedSemaphorePermit>) -> Response {
        let answer = self.router.call(inbound).await;
        match place {
            None => answer.map(Body::new),
            Some(place) => answer.map(|body| Body::new(PlacedBody::new(body, place))),
        }
    }
}

// === impl Settings ===

impl Settings {
    /// Who sends a request, and that there is room for it. Cheapest and most telling first: whoever has no key learns nothing
    /// of how busy the router is, and takes nothing of anybody's rate.
    fn let_in(&self, headers: &mut HeaderMap, now: Instant) -> Result<Admitted<'_>, RouteError> {
        let key = self.admit(headers)?;
        key.map_or(Ok(()), |key| key.spend(now))?;
        Ok(Admitted { key, place: self.turnstile.enter(now)? })
    }

    /// The key that a request brings; `None` where none is asked for.
    fn admit(&self, headers: &mut HeaderMap) -> Result<Option<&ApiKey>, RouteError> {
        self.keys.as_ref().map(|keys| keys.admit(headers)).transpose()
    }
}
