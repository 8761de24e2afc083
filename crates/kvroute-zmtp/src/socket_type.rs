//! The socket types of the protocol and who may talk to whom.

/// What a peer says it is in its READY command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketType {
    Publisher,
    Subscriber,
    Router,
    Dealer,
}

// === impl SocketType ===

impl SocketType {
    pub(crate) const fn wire_name(self) -> &'static [u8] {
        match self {
            Self::Publisher => b"PUB",
            Self::Subscriber => b"SUB",
            Self::Router => b"ROUTER",
            Self::Dealer => b"DEALER",
        }
    }

    /// True where the protocol lets a socket of this type talk to one that names itself so.
    pub(crate) fn accepts_peer(self, peer: &[u8]) -> bool {
        let peers: &[&[u8]] = match self {
            Self::Publisher => &[b"SUB", b"XSUB"],
            Self::Subscriber => &[b"PUB", b"XPUB"],
            Self::Router => &[b"DEALER", b"REQ", b"ROUTER"],
            Self::Dealer => &[b"ROUTER", b"REP", b"DEALER"],
        };
        peers.contains(&peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complementary_sockets_talk() {
        assert!(SocketType::Subscriber.accepts_peer(b"PUB"));
        assert!(!SocketType::Subscriber.accepts_peer(b"ROUTER"));
        assert!(SocketType::Router.accepts_peer(b"REQ"));
        assert!(!SocketType::Publisher.accepts_peer(b""));
    }
}
