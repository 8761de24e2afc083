//! Request bodies of both planes, read whole and bounded in size and in time.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::EXPECT;
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kvroute_router::{ErrorKind, RouteError};

/// What a body may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    /// Bytes.
    pub(crate) largest: usize,
    /// Time until its last byte: a client that sends one byte now and then holds its place no longer than that.
    pub(crate) slowest: Duration,
}

/// Refuses a body that its client waits for leave to send and that is too large by its announced length: it need not be sent
/// first. One that is on its way is read as far as it may go, because a client that writes does not read.
fn check_announced(headers: &HeaderMap, body: &Body, limits: BodyLimits) -> Result<(), RouteError> {
    let limit = limits.largest;
    match headers.contains_key(EXPECT) && body.size_hint().lower() > limit as u64 {
        true => Err(RouteError::client(ErrorKind::BodyTooLarge { limit })),
        false => Ok(()),
    }
}

/// Reads the body behind these headers.
pub(crate) async fn read_behind(
    headers: &HeaderMap,
    body: Body,
    limits: BodyLimits,
) -> Result<Bytes, RouteError> {
    check_announced(headers, &body, limits)?;
    read(body, limits).await
}

/// Reads a body that keeps within its limits.
pub(crate) async fn read(body: Body, limits: BodyLimits) -> Result<Bytes, RouteError> {
    let BodyLimits { largest, slowest } = limits;
    let Ok(collected) = tokio::time::timeout(slowest, Limited::new(body, largest).collect()).await else {
        return Err(RouteError::client(ErrorKind::BodyTimeout { after: slowest }));
    };
    match collected {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(RouteError::client(ErrorKind::BodyTooLarge { limit: largest }))
        }
        Err(error) => Err(RouteError::client(ErrorKind::BodyBroken(error.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[tokio::test]
    async fn a_client_that_waited_for_leave_was_told_to_send_what_is_too_large() {
        let limits = BodyLimits { largest: 4, slowest: Duration::from_secs(60) };
        let waits = HeaderMap::from_iter([(EXPECT, HeaderValue::from_static("100-continue"))]);
        let refused = check_announced(&waits, &Body::from("12345"), limits).unwrap_err();
        assert_eq!(refused.status().as_u16(), 413);
        assert_eq!(read_behind(&waits, Body::from("1234"), limits).await.unwrap(), "1234");
        check_announced(&HeaderMap::new(), &Body::from("12345"), limits).unwrap();
        assert!(read_behind(&HeaderMap::new(), Body::from("12345"), limits).await.is_err());
    }
}
