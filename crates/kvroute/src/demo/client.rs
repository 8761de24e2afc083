//! What the demo asks of the router and of its engines.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use kvroute_openai::Endpoint;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::sse::AnswerReader;
use crate::http_client::{HttpClient, collect};

/// A client of router and engines. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: HttpClient,
}

/// A streamed answer that came to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// From sending the request to the first text; absent if the answer had none.
    pub(crate) first_token: Option<Duration>,
}

// === impl Client ===

impl Client {
    pub(crate) fn new() -> Self {
        Self { http: HttpClient::new() }
    }

    /// Sends a request for a stream and reads it to the end.
    pub(crate) async fn stream(&self, base: &str, endpoint: Endpoint, body: Bytes) -> Result<Answer, String> {
        let sent_at = Instant::now();
        let response = self.http.send(Method::POST, &format!("{base}{}", endpoint.path()), body).await?;
        let status = response.status();
        let mut body = response.into_body();
        if status != StatusCode::OK {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&collect(body).await?)));
        }
        let mut reader = AnswerReader::default();
        let mut first_token = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| format!("the stream broke: {error}"))?;
            reader.push(frame.data_ref().map_or(&[], |data| &data[..]))?;
            if first_token.is_none() && reader.has_text() {
                first_token = Some(sent_at.elapsed());
            }
        }
        Ok(Answer { text: reader.finish()?, first_token })
    }

    /// The body of a `GET` that succeeds.
    pub(crate) async fn get(&self, url: &str) -> Result<Bytes, String> {
        let (status, body) = self.http.ask(Method::GET, url, Bytes::new()).await?;
        if status == StatusCode::OK { Ok(body) } else { Err(format!("{url}: {status}")) }
    }

    /// The same, read as JSON.
    pub(crate) async fn get_json<T: DeserializeOwned>(&self, url: &str) -> Result<T, String> {
        serde_json::from_slice(&self.get(url).await?).map_err(|error| format!("{url}: {error}"))
    }
}
