//! Which callers may steer the selection.
//!
//! Only the TCP peer's address counts: a header that names another one is written by whoever sends it. It is judged
//! once a connection, and its requests carry the verdict as a type without a value, which costs no allocation.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};

/// Networks whose callers are trusted; without any, nobody is.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedNetworks(Arc<[IpNet]>);

/// In the extensions of a request: its peer is trusted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrustedPeer;

/// Bits of an IPv6 address before the IPv4 address that it holds.
const MAPPED_BITS: u8 = 96;

// === impl TrustedNetworks ===

impl TrustedNetworks {
    pub(crate) fn new(networks: &[IpNet]) -> Self {
        Self(networks.iter().map(|network| canonical(*network)).collect())
    }

    /// Whether a peer is trusted. A socket for both families shows IPv4 peers in IPv6 form: they count as IPv4.
    pub(crate) fn hold(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.iter().any(|network| network.contains(&peer))
    }
}

/// A network of IPv4 addresses in IPv6 form is the IPv4 network.
fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(mapped) = network else { return network };
    let address: Option<Ipv4Addr> = mapped.addr().to_ipv4_mapped();
    let bits = mapped.prefix_len().checked_sub(MAPPED_BITS);
    let within = address.zip(bits).and_then(|(address, bits)| Ipv4Net::new(address, bits).ok());
    within.map_or(network, IpNet::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted(networks: &[&str], peer: &str) -> bool {
        let networks: Vec<IpNet> = networks.iter().map(|network| network.parse().unwrap()).collect();
        TrustedNetworks::new(&networks).hold(peer.parse().unwrap())
    }

    #[test]
    fn without_networks_nobody_is_trusted() {
        for peer in ["127.0.0.1", "::1", "0.0.0.0", "::ffff:127.0.0.1"] {
            assert!(!trusted(&[], peer), "{peer}");
        }
    }

    #[test]
    fn a_peer_is_trusted_by_any_network_that_holds_it() {
        let networks = ["10.1.0.0/16", "192.168.7.9/32", "fd00::/8"];
        for (peer, expected) in [
            ("10.1.255.255", true),
            ("10.2.0.0", false),
            ("192.168.7.9", true),
            ("192.168.7.8", false),
            ("fdab::1", true),
            ("fe80::1", false),
        ] {
            assert_eq!(trusted(&networks, peer), expected, "{peer}");
        }
    }

    #[test]
    fn an_ipv4_peer_in_ipv6_form_counts_as_ipv4() {
        assert!(trusted(&["10.0.0.0/8"], "::ffff:10.1.2.3"));
        assert!(!trusted(&["10.0.0.0/8"], "::ffff:11.1.2.3"));
        assert!(!trusted(&["::/0"], "::ffff:10.1.2.3"));
        assert!(!trusted(&["10.0.0.0/8"], "::10.1.2.3"), "an address of IPv6 that only looks like it");
    }

    #[test]
    fn an_ipv4_network_in_ipv6_form_counts_as_ipv4() {
        assert!(trusted(&["::ffff:10.0.0.0/104"], "10.1.2.3"));
        assert!(trusted(&["::ffff:10.0.0.0/104"], "::ffff:10.1.2.3"));
        assert!(!trusted(&["::ffff:10.0.0.0/104"], "11.1.2.3"));
    }
}
