//! Asks a running router, and says what is wrong if there is none.

use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode, Uri};
use serde::Deserialize;
use tokio::time::timeout;

use super::access::Access;
use super::advice::Question;
use crate::failure::Failure;
use crate::http_client::HttpClient;

/// Far beyond what counting the longest prompt takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Base address of an admin plane.
#[derive(Clone, Debug)]
pub(crate) struct AdminUrl(String);

/// A running router's admin plane.
#[derive(Debug)]
pub(crate) struct RouterClient {
    admin: AdminUrl,
    http: HttpClient,
}

/// An OpenAI-shaped error.
#[derive(Deserialize)]
struct Refusal {
    error: RefusalBody,
}

#[derive(Deserialize)]
struct RefusalBody {
    message: String,
    code: Option<String>,
}

// === impl AdminUrl ===

impl FromStr for AdminUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uri: Uri = text.parse().map_err(|_| "expected an address such as http://127.0.0.1:9090")?;
        match (uri.scheme_str(), uri.query()) {
            (Some("http" | "https"), None) => Ok(Self(text.trim_end_matches('/').to_owned())),
            _ => Err("expected an address such as http://127.0.0.1:9090"),
        }
    }
}

// === impl RouterClient ===

impl RouterClient {
    pub(super) fn new(admin: AdminUrl, access: &Access) -> Self {
        Self { admin, http: HttpClient::of(&access.tls, access.authorization.clone()) }
    }

    /// What would happen to a request, as JSON.
    pub(crate) async fn advice(&self, question: &Question<'_>) -> Result<Bytes, Failure> {
        self.ask(Method::POST, "/api/route", question.to_json()?).await
    }

    /// A decision that was taken, as JSON.
    pub(crate) async fn decision(&self, id: &str) -> Result<Bytes, Failure> {
        self.ask(Method::GET, &format!("/api/decisions/{}", percent_encoded(id)), Bytes::new()).await
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Failure> {
        let AdminUrl(admin) = &self.admin;
        let answer = timeout(PATIENCE, self.http.ask(method, &format!("{admin}{path}"), body)).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("{admin}: no answer within {PATIENCE:?}")));
        let (status, body) = answer.map_err(|error| {
            Failure::Failed(format!(
                "no router answers: {error}; start one with kvroute serve, or name its admin address with --admin"
            ))
        })?;
        if status == StatusCode::OK { Ok(body) } else { Err(self.refused(status, &body)) }
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Failure {
        let AdminUrl(admin) = &self.admin;
        let not_the_admin_plane = "is this the admin address of a kvroute router? Name it with --admin";
        Failure::Failed(match serde_json::from_slice(body) {
            Ok(Refusal { error }) if error.code.as_deref() == Some("path_not_found") => {
                format!("{admin}: {status}: {}; {not_the_admin_plane}", error.message)
            }
            Ok(Refusal { error }) => format!("{admin}: {status}: {}", error.message),
            Err(_) => format!("{admin}: {status}; {not_the_admin_plane}"),
        })
    }
}

/// Everything but what may stand in any path (RFC 3986, 2.3) is escaped.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_address_is_a_plain_http_one() {
        for good in ["http://127.0.0.1:9090", "https://router:9090/", "http://[::1]:9090"] {
            assert!(good.parse::<AdminUrl>().is_ok(), "{good}");
        }
        for bad in ["127.0.0.1:9090", "ftp://router", "/api", "", "http://a?b=c"] {
            assert!(bad.parse::<AdminUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ids_are_sent_whole() {
        assert_eq!(percent_encoded("d-0f-7"), "d-0f-7");
        assert_eq!(percent_encoded("a/b c?ü%"), "a%2Fb%20c%3F%C3%BC%25");
    }
}
