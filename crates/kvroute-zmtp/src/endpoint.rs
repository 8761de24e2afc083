//! Addresses as ZeroMQ spells them: `tcp://host:port`.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// A TCP address to connect to or to bind. `*` as host is every local IPv4 address, `*` as port a free one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    host: String,
    port: u16,
}

/// The text is no address of this crate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an event address: {reason}; write tcp://HOST:PORT")]
pub struct InvalidEndpoint {
    text: String,
    reason: &'static str,
}

// === impl Endpoint ===

impl Endpoint {
    /// A host (name or address, without brackets) and a port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Host name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// TCP port; 0 asks for a free one.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// True for hosts that mean every local address: `*`, `0.0.0.0`, `::`.
    pub fn is_wildcard(&self) -> bool {
        matches!(self.host.as_str(), "*" | "0.0.0.0" | "::")
    }

    /// Host and port as the resolver takes them.
    pub(crate) fn lookup(&self) -> (&str, u16) {
        let host = if self.host == "*" { "0.0.0.0" } else { &self.host };
        (host, self.port)
    }
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |reason| InvalidEndpoint { text: text.to_owned(), reason };
        let address = text.strip_prefix("tcp://").ok_or_else(|| invalid("only tcp:// is supported"))?;
        let (host, port) = address.rsplit_once(':').ok_or_else(|| invalid("the port is missing"))?;
        let port = match port {
            "*" => 0,
            digits => digits.parse().map_err(|_| invalid("the port is not a number up to 65535"))?,
        };
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(|| invalid("the bracket is not closed"))?,
            None if host.contains(':') => return Err(invalid("an IPv6 address needs brackets")),
            None => host,
        };
        if host.is_empty() {
            return Err(invalid("the host is missing"));
        }
        Ok(Self::new(host, port))
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip().to_string(), address.port())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "tcp://[{}]:{}", self.host, self.port),
            false => write!(f, "tcp://{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints_what_engines_print() {
        for text in ["tcp://*:5557", "tcp://10.0.0.1:5557", "tcp://worker-3.pool:1", "tcp://[::]:5557"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("tcp://127.0.0.1:*".parse::<Endpoint>().unwrap().port(), 0);
    }

    #[test]
    fn knows_wildcards() {
        let wildcard = |text: &str| text.parse::<Endpoint>().unwrap().is_wildcard();
        assert!(wildcard("tcp://*:1") && wildcard("tcp://0.0.0.0:1") && wildcard("tcp://[::]:1"));
        assert!(!wildcard("tcp://10.0.0.1:1"));
    }

    #[test]
    fn errors_name_the_text_and_the_remedy() {
        for text in
            ["ipc:///tmp/x", "tcp://host", "tcp://:1", "tcp://host:70000", "tcp://::1:5", "tcp://[::1:5"]
        {
            let message = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(message.contains(text) && message.contains("tcp://HOST:PORT"), "{message}");
        }
    }
}
