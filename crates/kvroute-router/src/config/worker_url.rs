//! The address of an engine, written in one way only.
//!
//! A worker is named by its address, and the same engine twice in a pool would be counted twice. So whatever may
//! be written in several ways is made one: case and IP notation of the host, the port, slashes at the end. A port
//! that is no number must not pass either: HTTP clients take the default port then, which is another server.

use std::net::Ipv6Addr;

use http::Uri;

/// What addresses look like, for errors and documentation.
pub const EXPECTED_WORKER_URL: &str = "an address such as \"http://10.0.0.1:8000\"";

/// The base address of an engine in its one form, `http://host:port` or `https://host:port`, with the path that a gateway
/// puts before the engine's own. The error says what was expected.
pub fn parse_worker_url(text: &str) -> Result<String, String> {
    let uri: Uri = text.parse().map_err(|_| expected())?;
    let (scheme, default_port) = match uri.scheme_str() {
        Some("http") => ("http", 80),
        Some("https") => ("https", 443),
        _ => return Err(expected()),
    };
    // The parser drops what stands behind a '#'.
    if uri.query().is_some() || text.contains('#') {
        return Err("an address without a query and a fragment".to_owned());
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let (host, port) = split_port(authority, default_port)?;
    Ok(format!("{scheme}://{}:{port}{}", normal_host(host)?, prefix(uri.path())?))
}

fn expected() -> String {
    EXPECTED_WORKER_URL.to_owned()
}

/// Host and port of `host`, `host:port`, `[ipv6]` and `[ipv6]:port`.
fn split_port(authority: &str, default_port: u16) -> Result<(&str, u16), String> {
    if authority.contains('@') {
        return Err("an address without a user name".to_owned());
    }
    let end_of_host = authority.find(']').map_or_else(|| authority.find(':'), |bracket| Some(bracket + 1));
    let (host, rest) = authority.split_at(end_of_host.unwrap_or(authority.len()));
    if rest.is_empty() {
        return Ok((host, default_port));
    }
    let digits = rest.strip_prefix(':').filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = digits.and_then(|digits| digits.parse().ok()).filter(|port| *port > 0);
    let port = port.ok_or("a port between 1 and 65535 behind the host, or none for the usual one")?;
    Ok((host, port))
}

fn normal_host(host: &str) -> Result<String, String> {
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        let address: Ipv6Addr = address.parse().map_err(|_| "an IPv6 address in the brackets".to_owned())?;
        return Ok(format!("[{address}]"));
    }
    let is_name = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    if host.is_empty() || !host.chars().all(is_name) {
        return Err(expected());
    }
    Ok(host.to_ascii_lowercase())
}

/// A part of a path with its dots as they are read: whoever looks for them decodes them first.
fn plain(part: &str) -> String {
    part.to_ascii_lowercase().replace("%2e", ".")
}

/// What stands before the paths of the engine's API, without a slash at its end.
fn prefix(path: &str) -> Result<&str, String> {
    let path = path.trim_end_matches('/');
    let mut parts = path.split('/').skip(1);
    if parts.any(|part| matches!(&*plain(part), "" | "." | "..")) {
        return Err("an address whose path has no empty and no dotted parts".to_owned());
    }
    if path.to_ascii_lowercase().contains("%2f") {
        return Err("an address whose path has no encoded slash, which would be another path".to_owned());
    }
    if path.ends_with("/v1") {
        return Err("the address without /v1, which is part of every request's own path".to_owned());
    }
    Ok(path)
}
