//! Who may use the admin plane.
//!
//! With tokens: whoever brings one. Without: programs of this machine, since the plane then listens on loopback only. A web
//! page in a browser of this machine is no such program, although its requests come from here: it names the plane by
//! a host name of its own (DNS rebinding), or sends what needs no answer to be read (forged requests). What a browser says
//! of such a request cannot be left out or changed by the page, so the plane looks at that.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderMap, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use kvroute_openai::ErrorBody;

use super::AdminPlane;
use crate::json;

/// Asked by those who only want to know whether this process lives, and who should need no secret for it.
const OPEN: &str = "/health";

/// Lets a request through, or says why not.
pub(super) async fn guard(State(plane): State<AdminPlane>, request: Request, next: Next) -> Response {
    match plane.check(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Why a request is turned away.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It brings no token that counts.
    Token,
    /// It names this machine by a name that anybody may own.
    ForeignName,
    /// A page of another site makes a browser send it.
    ForeignPage,
    /// It names this machine more than once: who looks at which of the names is anybody's guess.
    SeveralNames,
}

// === impl AdminPlane ===

impl AdminPlane {
    fn check(&self, request: &Request) -> Result<(), Refusal> {
        check_host(request.headers())?;
        match &self.live.settings.load().admin_tokens {
            Some(_) if request.uri().path() == OPEN => Ok(()),
            Some(tokens) if tokens.admit(request.headers()) => Ok(()),
            Some(_) => Err(Refusal::Token),
            None => check_browser(request.method(), request.uri(), request.headers()),
        }
    }
}

/// That there is one host at most, as HTTP wants it (RFC 9112, 3.2).
fn check_host(headers: &HeaderMap) -> Result<(), Refusal> {
    match headers.get_all(HOST).iter().nth(1) {
        Some(_second) => Err(Refusal::SeveralNames),
        None => Ok(()),
    }
}

/// Without a token: that no page of another site is behind a request.
fn check_browser(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let named = host_of(uri, headers);
    if named.is_some_and(|host| !is_this_machine(host)) {
        return Err(Refusal::ForeignName);
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_link = method == Method::GET && text("sec-fetch-mode") == Some("navigate");
    let is_foreign = text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
    if is_foreign && !is_link {
        return Err(Refusal::ForeignPage);
    }
    match headers.get(ORIGIN) {
        Some(origin) if !is_origin_of(origin, named) => Err(Refusal::ForeignPage),
        _ => Ok(()),
    }
}

/// What the client calls this server, with its port. Only clients that are no browsers leave it out.
fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let named = uri.authority().map(axum::http::uri::Authority::as_str);
    // A value that is no text is no name of this machine either.
    named.or_else(|| headers.get(HOST).map(|value| value.to_str().unwrap_or("?")))
}

/// Names that no DNS server can give to somebody else.
fn is_this_machine(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return is_loopback(address.ip());
    }
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let name = name.map_or(host, |(name, _port)| name);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(is_loopback)
        || bare.parse().is_ok_and(is_loopback)
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whether a page has come from this very server. `null`, which sandboxed pages send, has come from nowhere.
fn is_origin_of(origin: &HeaderValue, host: Option<&str>) -> bool {
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    origin.zip(host).is_some_and(|((_scheme, origin), host)| origin.eq_ignore_ascii_case(host))
}

// === impl Refusal ===

impl Refusal {
    fn into_response(self) -> Response {
        let (status, code, message) = match self {
            Self::SeveralNames => (
                StatusCode::BAD_REQUEST,
                "several_hosts",
                "the request has more than one host header; send one",
            ),
            Self::Token => (
                StatusCode::UNAUTHORIZED,
                "invalid_admin_token",
                "the admin plane needs a token of server.admin_token_file; send one as \"authorization: Bearer TOKEN\"",
            ),
            Self::ForeignName => (
                StatusCode::FORBIDDEN,
                "foreign_host",
                "without server.admin_token_file the admin plane answers to localhost and loopback addresses only; ask \
                 for it by one of them, or set a token",
            ),
            Self::ForeignPage => (
                StatusCode::FORBIDDEN,
                "foreign_origin",
                "without server.admin_token_file the admin plane answers to no page of another site; set a token and send it",
            ),
        };
        let body = ErrorBody::new("invalid_request_error", message.to_owned()).with_code(code);
        let mut answer = json::error(status, &body);
        if status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::HeaderName;

    use super::*;

    fn asked(method: &Method, headers: &[(&'static str, &'static str)]) -> Result<(), Refusal> {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let headers: HeaderMap = headers.iter().map(pair).collect();
        check_browser(method, &Uri::from_static("/api/workers"), &headers)
    }

    #[test]
    fn this_machine_is_named_by_localhost_and_by_loopback_addresses() {
        for host in [
            "localhost",
            "LocalHost:9090",
            "127.0.0.1",
            "127.0.0.1:9090",
            "127.1.2.3:1",
            "[::1]",
            "[::1]:9090",
            "[::ffff:127.0.0.1]:80",
        ] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:9090",
            "localhost.evil.example",
            "127.0.0.1.evil.example:9090",
            "10.0.0.1:9090",
            "0.0.0.0:9090",
            "[::]:9090",
            "[fe80::1]",
            "localhost:9090@evil.example",
            "evil:localhost",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn a_request_names_its_host_once_or_not_at_all() {
        let hosts = |names: &[&'static str]| {
            let named = names.iter().map(|name| (HOST, HeaderValue::from_static(name)));
            check_host(&named.collect())
        };
        assert_eq!((hosts(&[]), hosts(&["127.0.0.1:9090"])), (Ok(()), Ok(())));
        for second in ["127.0.0.1:9090", "evil.example"] {
            assert_eq!(hosts(&["127.0.0.1:9090", second]), Err(Refusal::SeveralNames), "{second}");
        }
    }

    #[test]
    fn programs_pass_and_so_do_pages_of_the_plane_itself() {
        let host = ("host", "127.0.0.1:9090");
        assert_eq!(asked(&Method::POST, &[]), Ok(()), "an old client without a host");
        assert_eq!(asked(&Method::POST, &[host]), Ok(()));
        let own = [host, ("origin", "http://127.0.0.1:9090"), ("sec-fetch-site", "same-origin")];
        assert_eq!(asked(&Method::POST, &own), Ok(()));
        assert_eq!(
            asked(&Method::GET, &[host, ("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")]),
            Ok(())
        );
        let link = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(asked(&Method::GET, &link), Ok(()), "a link that somebody follows");
    }

    #[test]
    fn pages_of_other_sites_do_not_pass_however_they_name_the_plane() {
        let host = ("host", "127.0.0.1:9090");
        assert_eq!(asked(&Method::GET, &[("host", "evil.example:9090")]), Err(Refusal::ForeignName));
        for foreign in [
            ("origin", "http://evil.example"),
            ("origin", "http://127.0.0.1:8000"),
            ("origin", "http://127.0.0.1"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(asked(&Method::POST, &[host, foreign]), Err(Refusal::ForeignPage), "{foreign:?}");
            assert_eq!(asked(&Method::GET, &[host, foreign]), Err(Refusal::ForeignPage), "{foreign:?}");
        }
        let forged = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(asked(&Method::POST, &forged), Err(Refusal::ForeignPage), "a form of another page");
    }
}
