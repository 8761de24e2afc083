//! The other replicas, as far as they were heard of.

use std::collections::BTreeMap;
use std::time::Duration;

use kvroute_core::Blocks;
use kvroute_history::Domain;
use tokio::time::Instant;

use crate::message::{Offer, Origin};

/// Whoever may write to the subject could invent any number of replicas.
const MOST_PEERS: usize = 1024;

/// Domains of one peer that are remembered.
const MOST_OFFERS: usize = 256;

/// A gap is told as at most so many lost messages: its size is the sender's word.
const LARGEST_GAP: u64 = 1 << 12;

/// All peers, by the replica's process.
#[derive(Debug)]
pub(crate) struct Peers {
    silence: Duration,
    known: BTreeMap<Origin, Peer>,
}

#[derive(Debug)]
struct Peer {
    heard: Instant,
    /// The number that its next update should have.
    next: Option<u64>,
    offers: Vec<(Domain, Blocks)>,
}

// === impl Peers ===

impl Peers {
    /// Peers that say nothing for `silence` are gone.
    pub(crate) const fn new(silence: Duration) -> Self {
        Self { silence, known: BTreeMap::new() }
    }

    /// A replica says that it is there, and what it has.
    pub(crate) fn announced(&mut self, origin: Origin, offers: &[Offer<'_>], now: Instant) {
        if !self.known.contains_key(&origin) && self.known.len() >= MOST_PEERS {
            return;
        }
        let peer =
            self.known.entry(origin).or_insert_with(|| Peer { heard: now, next: None, offers: Vec::new() });
        peer.heard = now;
        for offer in offers {
            peer.take(offer);
        }
    }

    /// A replica's update with this number came. Returns how many before it did not.
    pub(crate) fn updated(&mut self, origin: Origin, sequence: u64, now: Instant) -> u64 {
        let Some(peer) = self.known.get_mut(&origin) else { return 0 };
        peer.heard = now;
        let expected = peer.next.unwrap_or(sequence);
        if sequence >= expected {
            peer.next = Some(sequence.saturating_add(1));
        }
        sequence.saturating_sub(expected).min(LARGEST_GAP)
    }

    /// A replica says that it stops.
    pub(crate) fn left(&mut self, origin: Origin) {
        self.known.remove(&origin);
    }

    /// Forgets those that were not heard of for too long.
    pub(crate) fn forget_silent(&mut self, now: Instant) {
        let silence = self.silence;
        self.known.retain(|_, peer| now.duration_since(peer.heard) < silence);
    }

    pub(crate) fn forget_all(&mut self) {
        self.known.clear();
    }

    /// Peers that know something of a domain for which this holds.
    pub(crate) fn count(&self, is_shared: impl Fn(&Domain) -> bool) -> usize {
        let shares = |peer: &&Peer| peer.offers.iter().any(|(domain, _)| is_shared(domain));
        self.known.values().filter(shares).count()
    }

    pub(crate) fn knows(&self, origin: Origin) -> bool {
        self.known.contains_key(&origin)
    }

    /// The peer with the most hashes of a domain, apart from those that were `asked`.
    pub(crate) fn fullest(&self, domain: &Domain, asked: &[Origin]) -> Option<Origin> {
        let others = self.known.iter().filter(|(origin, _)| !asked.contains(origin));
        let offers = others.map(|(origin, peer)| (peer.resident(domain), *origin));
        offers.filter(|(resident, _)| !resident.is_zero()).max().map(|(_, origin)| origin)
    }
}

// === impl Peer ===

impl Peer {
    fn take(&mut self, offer: &Offer<'_>) {
        let domain = offer.domain.to_domain();
        let place = self.offers.iter().position(|(known, _)| *known == domain);
        match place {
            Some(place) => self.offers[place].1 = offer.resident,
            None if self.offers.len() < MOST_OFFERS => self.offers.push((domain, offer.resident)),
            None => {}
        }
    }

    fn resident(&self, domain: &Domain) -> Blocks {
        let offer = self.offers.iter().find(|(offered, _)| offered == domain);
        offer.map_or(Blocks::ZERO, |(_, resident)| *resident)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::DomainRef;

    const SILENCE: Duration = Duration::from_secs(13);

    fn domain(model: &str) -> Domain {
        let text = || "x".to_owned();
        Domain { model: model.to_owned(), block_size: 16, hash_scheme: text(), namespace_scheme: text() }
    }

    fn offer(domain: &Domain, resident: u64) -> Offer<'_> {
        Offer { domain: DomainRef::of(domain), resident: Blocks::new(resident) }
    }

    fn origin(raw: u128) -> Origin {
        Origin::from_raw(raw)
    }

    #[test]
    fn a_peer_is_there_until_it_says_goodbye_or_nothing() {
        let (mut peers, now) = (Peers::new(SILENCE), Instant::now());
        let (here, there) = (domain("m"), domain("other"));
        peers.announced(origin(1), &[offer(&here, 0)], now);
        peers.announced(origin(2), &[offer(&there, 5), offer(&here, 0)], now);
        peers.announced(origin(3), &[offer(&there, 5)], now);
        let count = |peers: &Peers| peers.count(|domain| *domain == here);
        assert_eq!(count(&peers), 2);
        peers.left(origin(1));
        assert_eq!(count(&peers), 1, "the third one shares nothing with us");
        peers.updated(origin(2), 0, now + SILENCE / 2);
        peers.forget_silent(now + SILENCE);
        assert!(peers.knows(origin(2)) && !peers.knows(origin(3)));
    }

    #[test]
    fn a_gap_in_the_numbers_is_what_was_lost() {
        let (mut peers, now) = (Peers::new(SILENCE), Instant::now());
        peers.announced(origin(1), &[], now);
        let numbers = [7, 8, 11, 9, 12, 12, 13];
        let lost = numbers.map(|sequence| peers.updated(origin(1), sequence, now));
        assert_eq!(lost, [0, 0, 2, 0, 0, 0, 0]);
        assert_eq!(peers.updated(origin(1), u64::MAX, now), LARGEST_GAP);
        assert_eq!(peers.updated(origin(9), 50, now), 0, "a stranger");
    }

    #[test]
    fn the_fullest_of_a_domain_is_asked_then_the_next() {
        let (mut peers, now, here, there) =
            (Peers::new(SILENCE), Instant::now(), domain("m"), domain("other"));
        peers.announced(origin(1), &[offer(&here, 5)], now);
        peers.announced(origin(2), &[offer(&here, 1), offer(&there, 99)], now);
        peers.announced(origin(2), &[offer(&here, 9)], now);
        peers.announced(origin(3), &[offer(&here, 0), offer(&there, 1)], now);
        assert_eq!(peers.fullest(&here, &[]), Some(origin(2)));
        assert_eq!(peers.fullest(&here, &[origin(2)]), Some(origin(1)));
        assert_eq!(peers.fullest(&here, &[origin(2), origin(1)]), None, "the third has nothing");
        assert_eq!(peers.fullest(&there, &[]), Some(origin(2)));
    }

    #[test]
    fn invented_peers_and_domains_do_not_fill_the_memory() {
        let (mut peers, now) = (Peers::new(SILENCE), Instant::now());
        for raw in 0..MOST_PEERS as u128 + 9 {
            peers.announced(origin(raw), &[], now);
        }
        assert_eq!(peers.known.len(), MOST_PEERS);
        for number in 0..MOST_OFFERS + 9 {
            peers.announced(origin(1), &[offer(&domain(&number.to_string()), 1)], now);
        }
        assert_eq!(peers.known[&origin(1)].offers.len(), MOST_OFFERS);
    }
}
