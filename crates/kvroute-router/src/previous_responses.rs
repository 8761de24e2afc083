//! Which worker made a response, so that a request that continues it goes there.
//!
//! Only the engine that made a response has it. So each worker keeps the ids of the latest that it made, hashed, and
//! their number is bounded: what is forgotten gets the answer that an engine would give which never had it.

use std::collections::{HashMap, VecDeque};

use kvroute_core::DpRank;
use kvroute_openai::{ClientRequest, ErrorBody, RequestError};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::RouteError;
use crate::hints::{Hints, Pin};
use crate::pool::Pool;
use crate::rank::Rank;
use crate::router::Shared;

/// The latest responses that one worker made.
#[derive(Debug, Default)]
pub(crate) struct MadeResponses(Mutex<Made>);

#[derive(Debug, Default)]
struct Made {
    ranks: HashMap<u64, DpRank>,
    /// The oldest first.
    order: VecDeque<u64>,
}

/// Responses of a worker that are kept, in some 32 bytes each.
const KEPT: usize = 16_384;

// === impl MadeResponses ===

impl MadeResponses {
    /// A rank of the worker made this response.
    pub(crate) fn add(&self, id: &str, rank: DpRank) {
        let (key, mut made) = (xxh3_64(id.as_bytes()), self.0.lock());
        if made.ranks.insert(key, rank).is_some() {
            return;
        }
        made.order.push_back(key);
        if made.order.len() > KEPT
            && let Some(oldest) = made.order.pop_front()
        {
            made.ranks.remove(&oldest);
        }
    }

    /// The rank that made it; `None` if this worker did not, or has made many since.
    pub(crate) fn maker(&self, id: &str) -> Option<DpRank> {
        self.0.lock().ranks.get(&xxh3_64(id.as_bytes())).copied()
    }
}

// === impl Rank ===

impl Rank {
    /// It made this response.
    pub(crate) fn made_response(&self, id: &str) {
        self.worker.responses().add(id, self.name.dp_rank);
    }
}

// === impl Shared ===

impl Shared {
    /// Binds a request that continues a response to the rank that made it, unless its caller has named one. The pin that
    /// is left is checked.
    pub(crate) fn bound(
        &self,
        pool: &Pool,
        request: &ClientRequest,
        mut hints: Hints,
    ) -> Result<Hints, RouteError> {
        if let Some(id) = request.previous_response.as_deref().filter(|_| hints.pin.is_none()) {
            hints.pin = self.maker(pool, id)?;
        }
        self.check_pin(pool, &hints)?;
        Ok(hints)
    }

    /// The rank that made a response; `None` where there is only one worker, which has it if anybody has.
    fn maker(&self, pool: &Pool, id: &str) -> Result<Option<Pin>, RouteError> {
        let fleet = pool.fleet();
        let made_it = |rank: &Rank| rank.worker.responses().maker(id) == Some(rank.name.dp_rank);
        if let Some(rank) = fleet.ranks.iter().find(|rank| made_it(rank)) {
            let worker = rank.name.worker.to_string();
            return Ok(Some(Pin { worker, dp_rank: Some(rank.name.dp_rank) }));
        }
        let crew = pool.plan().crew.now();
        let gone = crew.iter().find(|worker| worker.responses().maker(id).is_some());
        if let Some(worker) = gone {
            let reason = format!("worker {} made it and is gone: {}", worker.id(), worker.problem());
            return Err(not_found(id, &reason));
        }
        let mut workers = fleet.ranks.iter().map(|rank| &rank.name.worker);
        let first = workers.next();
        if workers.all(|worker| Some(worker) == first) {
            return Ok(None);
        }
        Err(not_found(
            id,
            "no worker is known to have made it, or it was long ago or before this router started",
        ))
    }
}

fn not_found(id: &str, reason: &str) -> RouteError {
    let message =
        format!("previous response {id:?} was not found: {reason}; send the whole conversation instead");
    let error = ErrorBody::new("invalid_request_error", message).with_param("previous_response_id");
    RouteError::bad_request(RequestError {
        status: 404,
        error: error.with_code("previous_response_not_found"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_responses_are_kept_and_the_oldest_forgotten() {
        let (made, rank) = (MadeResponses::default(), |number| DpRank::new(number));
        for number in 0..KEPT as u32 + 10 {
            made.add(&format!("resp_{number}"), rank(number % 4));
            made.add(&format!("resp_{number}"), rank(number % 3));
        }
        assert_eq!((made.maker("resp_9"), made.maker("resp_10")), (None, Some(rank(10 % 3))));
        assert_eq!(made.maker(&format!("resp_{}", KEPT + 9)), Some(rank((KEPT as u32 + 9) % 3)));
        assert_eq!(made.maker("other"), None);
        let kept = made.0.lock();
        assert_eq!((kept.ranks.len(), kept.order.len()), (KEPT, KEPT));
    }
}
