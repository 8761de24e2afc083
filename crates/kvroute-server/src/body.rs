//! Request bodies of both planes, read whole and bounded.

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kvroute_router::{ErrorKind, RouteError};

/// Reads a body of at most `limit` bytes.
pub(crate) async fn read(body: Body, limit: usize) -> Result<Bytes, RouteError> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(RouteError::client(ErrorKind::BodyTooLarge { limit }))
        }
        Err(error) => Err(RouteError::client(ErrorKind::BodyBroken(error.to_string()))),
    }
}
