//! The servers that were configured, with what proves who we are kept apart from what may be logged.

use std::fmt;

use async_nats::ServerAddr;
use percent_encoding::percent_decode_str;

/// Why a cluster cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// No server is named.
    #[error("no server is named; write nats://host:port, several separated by commas")]
    NoServer,
    /// An address is of no use. It is not shown: a password may stand in it.
    #[error(
        "address {place} is no server's: {problem}; write nats://host:port, and what is special in a user or password as %XX"
    )]
    Address {
        /// Which one of the list, from 1.
        place: usize,
        /// What is wrong.
        problem: String,
    },
    /// TLS is asked for.
    #[error(
        "address {place} asks for TLS, which this build cannot speak; use nats:// within a private network, or a NATS leaf node beside the router"
    )]
    Tls {
        /// Which one of the list, from 1.
        place: usize,
    },
}

/// One server.
#[derive(Clone)]
pub(crate) struct Server {
    /// Without user and password: the client logs it.
    pub(crate) address: ServerAddr,
    pub(crate) credentials: Credentials,
}

/// What proves to a server who we are.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    None,
    Token(String),
    Password { user: String, password: String },
}

/// Reads a list of servers.
pub(crate) fn servers(text: &str) -> Result<Vec<Server>, ClusterError> {
    let addresses = text.split(',').map(str::trim).filter(|address| !address.is_empty());
    let servers: Vec<Server> =
        addresses.zip(1..).map(|(address, place)| Server::parse(address, place)).collect::<Result<_, _>>()?;
    if servers.is_empty() { Err(ClusterError::NoServer) } else { Ok(servers) }
}

// === impl Server ===

impl Server {
    fn parse(text: &str, place: usize) -> Result<Self, ClusterError> {
        let address: ServerAddr = text.parse().map_err(|error| unusable(place, &error))?;
        match address.scheme() {
            "nats" => {}
            "tls" => return Err(ClusterError::Tls { place }),
            _ => return Err(unusable(place, &"only nats:// is spoken")),
        }
        if address.host().is_empty() {
            return Err(unusable(place, &"it has no host"));
        }
        let credentials =
            Credentials::of(&address).ok_or_else(|| unusable(place, &"its user or password is not UTF-8"))?;
        let mut url = address.into_inner();
        let cleared = url.set_username("").and_then(|()| url.set_password(None));
        cleared.map_err(|()| unusable(place, &"it cannot have a user"))?;
        let address = ServerAddr::from_url(url).map_err(|error| unusable(place, &error))?;
        Ok(Self { address, credentials })
    }
}

fn unusable(place: usize, problem: &dyn fmt::Display) -> ClusterError {
    ClusterError::Address { place, problem: problem.to_string() }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (self.address.host(), self.address.port());
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

// === impl Credentials ===

impl Credentials {
    /// A user without a password is a token, as other NATS clients have it.
    fn of(address: &ServerAddr) -> Option<Self> {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned());
        Some(match (address.username(), address.password()) {
            (None, None) => Self::None,
            (Some(token), None) => Self::Token(decoded(token)?),
            (user, Some(password)) => {
                Self::Password { user: decoded(user.unwrap_or_default())?, password: decoded(password)? }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Server {
        servers(text).unwrap().remove(0)
    }

    #[test]
    fn several_servers_are_separated_by_commas() {
        let shown: Vec<String> =
            servers("nats://a:1, b:2,nats://[::1]").unwrap().iter().map(Server::to_string).collect();
        assert_eq!(shown, ["a:1", "b:2", "[::1]:4222"]);
        assert_eq!(servers(" , ").unwrap_err(), ClusterError::NoServer);
    }

    #[test]
    fn what_stands_before_the_host_is_taken_and_never_shown() {
        let server = parsed("nats://router:s%40cret@nats.example:4222");
        let expected = Credentials::Password { user: "router".to_owned(), password: "s@cret".to_owned() };
        assert!(server.credentials == expected);
        assert!(parsed("nats://t0ken@h").credentials == Credentials::Token("t0ken".to_owned()));
        assert!(parsed("h").credentials == Credentials::None);
        let address = format!("{server} {server:?} {:?}", server.address);
        assert!(!address.contains("router") && !address.contains("cret"), "{address}");
    }

    #[test]
    fn a_bad_address_is_named_by_its_place_and_never_shown() {
        let wrong = [
            (
                "nats://u:secret@host:99999",
                "address 1 is no server's: NATS server URL is invalid: invalid port",
            ),
            ("h,http://u:secret@host", "address 2 is no server's: invalid scheme for NATS server URL: http"),
            ("ws://u:secret@host", "only nats:// is spoken"),
            ("nats://u:secret@", "empty host"),
            ("nats:///", "it has no host"),
            ("nats://u:secret@ho st:1", "invalid"),
            ("nats://u:secret,comma@host", "address 1"),
            ("nats://u:%ffsecret@host", "not UTF-8"),
            ("tls://u:secret@host", "address 1 asks for TLS"),
        ];
        for (address, part) in wrong {
            let message = servers(address).unwrap_err().to_string();
            assert!(message.contains(part) && !message.contains("secret"), "{address}: {message}");
        }
    }
}
