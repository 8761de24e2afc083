use std::time::Duration;

use kvroute_core::Blocks;

use super::*;
use crate::message::{DomainRef, Offer};

fn domain(model: &str) -> Arc<Domain> {
    let text = || "x".to_owned();
    Arc::new(Domain {
        model: model.to_owned(),
        block_size: 16,
        hash_scheme: text(),
        namespace_scheme: text(),
    })
}

/// A replica that joins, and peers 1, 2, … that offer so many hashes of its domain.
struct World {
    joins: Joins,
    peers: Peers,
    timing: Timing,
    now: Instant,
    domain: Arc<Domain>,
}

impl World {
    fn new(residents: &[u64]) -> Self {
        let (timing, now, domain) = (Timing::default(), Instant::now(), domain("m"));
        let mut peers = Peers::new(Duration::from_secs(3600));
        for (number, resident) in residents.iter().enumerate() {
            let offer = Offer { domain: DomainRef::of(&domain), resident: Blocks::new(*resident) };
            peers.announced(origin(number as u128 + 1), &[offer], now);
        }
        let mut joins = Joins::default();
        joins.begin(Arc::clone(&domain), now);
        Self { joins, peers, timing, now, domain }
    }

    /// Whom it asks after more time.
    fn after(&mut self, more: Duration) -> Vec<Origin> {
        self.now += more;
        let requests = self.joins.due(&self.peers, &self.timing, self.now, || 7);
        assert!(requests.iter().all(|request| request.domain == self.domain && request.transfer == 7));
        requests.into_iter().map(|request| request.of).collect()
    }

    fn part(&mut self, from: u128, index: u32, end: PartEnd) -> Part {
        self.joins.part(origin(from), (7, index), end, self.now)
    }
}

fn origin(raw: u128) -> Origin {
    Origin::from_raw(raw)
}

const EXPECTED: Part = Part::Expected { missing: 0 };

#[test]
fn offers_are_waited_for_then_the_fullest_is_asked_once() {
    let mut world = World::new(&[3, 8, 5]);
    assert!(world.after(Duration::ZERO).is_empty());
    assert_eq!(world.after(world.timing.offers), [origin(2)]);
    assert!(world.after(Duration::ZERO).is_empty());
    assert_eq!(world.part(2, 0, PartEnd::More), EXPECTED);
    assert_eq!(world.part(2, 1, PartEnd::Last), EXPECTED);
    assert!(world.joins.unfinished().count() == 0);
    assert_eq!(world.part(2, 2, PartEnd::Last), Part::Stale);
}

#[test]
fn whoever_falls_silent_in_the_middle_is_followed_by_the_next() {
    let mut world = World::new(&[3, 8]);
    assert_eq!(world.after(world.timing.offers), [origin(2)]);
    assert!(world.after(world.timing.part_silence / 2).is_empty());
    world.part(2, 0, PartEnd::More);
    assert!(world.after(world.timing.part_silence / 2).is_empty(), "a part came meanwhile");
    assert_eq!(world.after(world.timing.part_silence), [origin(1)]);
    assert_eq!(world.part(2, 1, PartEnd::More), Part::Stale);
    assert_eq!(world.part(1, 0, PartEnd::More), EXPECTED);
}

#[test]
fn whoever_leaves_or_refuses_is_followed_by_the_next_at_once() {
    let mut world = World::new(&[3, 8, 9]);
    assert_eq!(world.after(world.timing.offers), [origin(3)]);
    world.peers.left(origin(3));
    assert_eq!(world.after(Duration::ZERO), [origin(2)]);
    assert_eq!(world.part(2, 0, PartEnd::Refused), EXPECTED);
    assert_eq!(world.after(Duration::ZERO), [origin(1)]);
}

#[test]
fn nobody_there_is_an_empty_start() {
    let mut world = World::new(&[0]);
    assert!(world.after(world.timing.offers).is_empty());
    assert!(world.joins.unfinished().count() > 0);
    assert!(world.after(world.timing.no_offers).is_empty());
    assert!(world.joins.unfinished().count() == 0);
}

#[test]
fn an_offer_that_comes_late_is_taken() {
    let mut world = World::new(&[]);
    assert!(world.after(world.timing.offers).is_empty());
    let offer = Offer { domain: DomainRef::of(&world.domain), resident: Blocks::new(1) };
    world.peers.announced(origin(1), &[offer], world.now);
    assert_eq!(world.after(Duration::ZERO), [origin(1)]);
}

#[test]
fn parts_that_did_not_come_are_counted_and_the_others_taken() {
    let mut world = World::new(&[3]);
    world.after(world.timing.offers);
    assert_eq!(world.part(1, 2, PartEnd::More), Part::Expected { missing: 2 });
    assert_eq!(world.part(1, 1, PartEnd::More), Part::Stale);
    assert_eq!(world.part(1, 3, PartEnd::Last), EXPECTED);
}

#[test]
fn parts_that_nobody_asked_for_are_stale() {
    let mut world = World::new(&[3]);
    assert_eq!(world.part(1, 0, PartEnd::More), Part::Stale);
    world.after(world.timing.offers);
    assert_eq!(world.part(5, 0, PartEnd::More), Part::Stale, "from another peer");
    assert_eq!(
        world.joins.part(origin(1), (8, 0), PartEnd::More, world.now),
        Part::Stale,
        "of another transfer"
    );
}

#[test]
fn domains_join_each_on_its_own() {
    let mut world = World::new(&[3]);
    world.joins.begin(domain("other"), world.now);
    let asked = world.joins.due(&world.peers, &world.timing, world.now + world.timing.offers, || 7);
    assert_eq!(asked.len(), 1);
    assert_eq!(world.part(1, 0, PartEnd::Last), EXPECTED);
    assert!(world.joins.unfinished().count() > 0, "the other one still looks for somebody");
}
