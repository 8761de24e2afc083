//! Decisions that were taken: the newest ones, or one by its id.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use kvroute_openai::{ErrorBody, RequestError};
use kvroute_router::RouteError;

use super::{AdminPlane, aside, failed};
use crate::json;

/// Decisions that are listed if nobody says how many.
const LISTED: usize = 100;

/// `GET /api/decisions?limit=N`: the newest ones, newest first.
pub(super) async fn list(State(plane): State<AdminPlane>, RawQuery(query): RawQuery) -> Response {
    let limit = match limit(query.as_deref().unwrap_or_default()) {
        Ok(limit) => limit,
        Err(error) => return failed(&RouteError::bad_request(error)),
    };
    // Thousands of records take longer to copy and write than a request may be held up.
    aside(move || json::response(StatusCode::OK, &plane.router.decisions(limit))).await
}

/// `GET /api/decisions/{id}`: by its own id or by that of the request.
pub(super) async fn one(
    State(plane): State<AdminPlane>,
    id: Result<Path<String>, PathRejection>,
) -> Response {
    let Ok(Path(id)) = id else {
        let error = RequestError::invalid_field("id", "the id is not UTF-8 after percent-decoding");
        return failed(&RouteError::bad_request(error));
    };
    match plane.router.decision(&id) {
        Some(decision) => json::response(StatusCode::OK, &decision),
        None => json::error(StatusCode::NOT_FOUND, &not_kept(&id)),
    }
}

fn not_kept(id: &str) -> ErrorBody {
    let message = format!(
        "no decision {id:?} is kept: it is neither the id of a decision nor of a request, or it was one of too many; \
         only the newest ones are kept, and of those only the share pool.decisions.sample"
    );
    ErrorBody::new("invalid_request_error", message).with_code("decision_not_found")
}

fn limit(query: &str) -> Result<usize, RequestError> {
    let mut limit = LISTED;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name != "limit" {
            let message = format!("unknown parameter {name:?}; the only one is limit");
            return Err(RequestError::invalid_field(name.to_owned(), message));
        }
        limit = value.parse().map_err(|_| {
            RequestError::invalid_field("limit", format!("limit is {value:?}; send a number of decisions"))
        })?;
    }
    Ok(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_number_and_the_only_parameter() {
        assert_eq!(limit(""), Ok(LISTED));
        assert_eq!(limit("limit=7"), Ok(7));
        assert_eq!(limit("limit=7&limit=8&"), Ok(8));
        let refused = |query| limit(query).unwrap_err().to_string();
        assert_eq!(refused("limit=-1"), "limit is \"-1\"; send a number of decisions");
        assert_eq!(refused("limit"), "limit is \"\"; send a number of decisions");
        assert_eq!(refused("limt=7"), "unknown parameter \"limt\"; the only one is limit");
    }
}
