//! Which candidates of a decision are worth keeping.

use kvroute_core::Tokens;
use kvroute_select::Cost;

use super::Considered;

/// Most candidates that one record may keep, whatever the configuration says: this bounds the memory of the ring.
pub(super) const MOST: usize = 64;

/// What a record keeps of the candidates, as positions among them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// The picked one, then the others from the cheapest on.
    pub(super) positions: Vec<usize>,
    /// How many candidates could have been picked.
    pub(super) eligible: usize,
    /// Tokens in the smallest block of any candidate: the unit of costs.
    pub(super) block_size: u32,
}

/// Orders candidates by what they would have cost: those without a cost behind the others, excluded ones last.
#[derive(Clone, Copy, Debug)]
struct Rated {
    rating: f64,
    position: usize,
}

/// The candidate with the longest cached prefix so far. Of several the first.
#[derive(Clone, Copy, Debug, Default)]
struct Holder {
    cached: Tokens,
    position: Option<usize>,
}

/// The few cheapest candidates so far.
#[derive(Debug)]
struct Cheapest {
    few: Vec<Rated>,
    room: usize,
}

// === impl Kept ===

impl Kept {
    /// The picked one, the best holders, then the cheapest, at most `limit` in all. Goes through the candidates once.
    pub(super) fn of(considered: &Considered<'_>, limit: usize) -> Self {
        let limit = limit.clamp(1, MOST);
        let mut cheapest = Cheapest::new(limit.min(considered.candidates.len()));
        let (mut best, mut best_eligible) = (Holder::default(), Holder::default());
        let (mut eligible, mut block_size) = (0, u32::MAX);
        let (mut costs, mut cached) = (considered.costs.iter(), considered.cached.unwrap_or_default().iter());
        for (position, candidate) in considered.candidates.iter().enumerate() {
            let cost = costs.next().and_then(Option::as_ref);
            let held = cached.next().map_or(Tokens::ZERO, |cached| cached.total());
            let is_eligible = candidate.is_eligible();
            cheapest.offer(Rated::new(position, is_eligible, cost));
            best.offer(held, position);
            if is_eligible {
                eligible += 1;
                best_eligible.offer(held, position);
            }
            block_size = block_size.min(candidate.block_size.get());
        }
        let mut positions = vec![considered.picked];
        let holders = [best_eligible.position, best.position].into_iter().flatten();
        for position in holders.chain(cheapest.positions()) {
            if positions.len() < limit && !positions.contains(&position) {
                positions.push(position);
            }
        }
        positions[1..]
            .sort_by(|&one, &other| Rated::of(considered, one).order(&Rated::of(considered, other)));
        Self { positions, eligible, block_size }
    }
}

// === impl Rated ===

impl Rated {
    fn new(position: usize, is_eligible: bool, cost: Option<&Cost>) -> Self {
        let rating = match (is_eligible, cost) {
            (true, Some(cost)) => cost.total.get(),
            (true, None) => f64::MAX,
            (false, _) => f64::INFINITY,
        };
        Self { rating, position }
    }

    fn of(considered: &Considered<'_>, position: usize) -> Self {
        let is_eligible = considered.candidates[position].is_eligible();
        Self::new(position, is_eligible, considered.costs.get(position).and_then(Option::as_ref))
    }

    fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.rating.total_cmp(&other.rating).then(self.position.cmp(&other.position))
    }
}

// === impl Holder ===

impl Holder {
    fn offer(&mut self, cached: Tokens, position: usize) {
        if cached > self.cached {
            *self = Self { cached, position: Some(position) };
        }
    }
}

// === impl Cheapest ===

impl Cheapest {
    fn new(room: usize) -> Self {
        Self { few: Vec::with_capacity(room), room }
    }

    /// Positions come in rising order, so of equals the first ones stay.
    fn offer(&mut self, rated: Rated) {
        if self.few.len() == self.room {
            if self.few.last().is_none_or(|dearest| rated.rating >= dearest.rating) {
                return;
            }
            self.few.pop();
        }
        let place = self.few.partition_point(|cheaper| cheaper.rating <= rated.rating);
        self.few.insert(place, rated);
    }

    fn positions(&self) -> impl Iterator<Item = usize> {
        self.few.iter().map(|rated| rated.position)
    }
}
