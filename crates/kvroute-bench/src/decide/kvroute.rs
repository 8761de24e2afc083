//! The decision of this project, as the router takes it: hashed and looked up by whoever asks, decided and booked behind
//! one lock. What the router does besides, a few gauges and a record for the explanation, is not part of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use kvroute_core::{AttemptId, CachedTokens, HashedPrompts, Namespace, RankKey, RankSlot, Tokens};
use kvroute_index::Prefixes;
use kvroute_select::{
    Affinity, CostWeights, ForeignLoad, PolicyOptions, Question, RankView, Selector, policy,
};
use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::contestant::{Callers, Contestant, Parts, Request};
use crate::index::contestant::Index;
use crate::index::kvroute::{FromHashes, HashedEvent};
use crate::index::workload::{BLOCK_SIZE, Event};
use crate::random::mix;

pub(crate) struct Kvroute {
    index: FromHashes,
    slots: Vec<RankSlot>,
    ranks: Vec<RankView>,
    desk: Mutex<Desk>,
    opened: Instant,
}

struct Desk {
    selector: Selector,
    random: ChaCha8Rng,
    shadow_random: ChaCha8Rng,
    /// Filled anew for each decision, since ranks change.
    views: Vec<RankView>,
}

/// Buffers of a lookup.
#[derive(Debug, Default)]
pub(crate) struct Room {
    found: Prefixes,
    cached: Vec<CachedTokens>,
}

// === impl Kvroute ===

impl Kvroute {
    fn changed(&self, change: impl FnOnce(&mut Selector, Duration)) -> Duration {
        let start = Instant::now();
        let now = self.opened.elapsed();
        change(&mut self.desk.lock().selector, now);
        start.elapsed()
    }
}

impl Contestant for Kvroute {
    const NAME: &'static str = "kvroute";

    type Room = Room;
    type Placed = AttemptId;
    type Event = HashedEvent;

    fn new(workers: usize, _callers: Callers) -> Result<Self> {
        let live = policy::by_name("kv", &PolicyOptions::default())?;
        let desk = Desk {
            selector: Selector::new(live, Vec::new()),
            random: ChaCha8Rng::seed_from_u64(1),
            shadow_random: ChaCha8Rng::seed_from_u64(2),
            views: Vec::new(),
        };
        let slots: Vec<RankSlot> = (0..workers as u32).map(RankSlot::new).collect();
        Ok(Self {
            index: FromHashes::new(workers),
            ranks: slots.iter().map(|slot| view(*slot)).collect(),
            slots,
            desk: Mutex::new(desk),
            opened: Instant::now(),
        })
    }

    fn event(event: &Event) -> HashedEvent {
        FromHashes::event(event)
    }

    fn apply(&self, event: HashedEvent) {
        self.index.apply(&mut 0, event);
    }

    fn decide(&self, request: &Arc<Request>, room: &mut Room) -> Result<(AttemptId, Parts)> {
        let start = Instant::now();
        let hashed = HashedPrompts::new(&request.prompts, &[BLOCK_SIZE], Namespace::DEFAULT, || ());
        let hash = start.elapsed();
        self.index.0.cached_tokens(&hashed, &self.slots, &mut room.found, &mut room.cached);
        let found = start.elapsed();
        let lengths = request.prompts.first().map_or(Tokens::ZERO, |prompt| Tokens::from(prompt.len()));
        let now = self.opened.elapsed();
        let mut desk = self.desk.lock();
        let Desk { selector, random, shadow_random, views } = &mut *desk;
        views.clear();
        views.extend(self.ranks.iter().copied());
        let question = Question {
            ranks: views,
            cached: Some(&room.cached),
            hashed: &hashed,
            prompt_lengths: &[lengths],
            choices: 1,
            shows_first_token: true,
            takes_over: false,
            weights: CostWeights::default(),
            affinity: Affinity::default(),
            is_pinned: false,
            now,
        };
        let decided = selector.decide(&question, random, shadow_random);
        drop(desk);
        let all = start.elapsed();
        let decided = decided.map_err(|nobody| anyhow!("no worker was picked: {nobody:?}"))?;
        Ok((decided.attempt, Parts { hash, lookup: found - hash, decide: all - found }))
    }

    fn first_token(&self, placed: &AttemptId) -> Result<Duration> {
        Ok(self.changed(|selector, now| selector.book_mut().first_token(*placed, now)))
    }

    fn release(&self, placed: AttemptId) -> Result<Duration> {
        Ok(self.changed(|selector, now| selector.book_mut().release(placed, now)))
    }

    fn loads(&self) -> Vec<usize> {
        let desk = self.desk.lock();
        self.slots.iter().map(|slot| desk.selector.load(*slot).active_requests as usize).collect()
    }
}

fn view(slot: RankSlot) -> RankView {
    RankView {
        slot,
        key: RankKey::new(mix(slot.get().into())),
        block_size: BLOCK_SIZE,
        has_credit: true,
        foreign: ForeignLoad::default(),
        excluded: None,
    }
}
