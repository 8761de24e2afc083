//! `sticky`: a session stays with its rank.
//!
//! The client names its sessions, so nothing has to be hashed, predicted or reported: the rank that had the turn before
//! has its cache. Where a session begins is a matter of load, and of recent work where the load says nothing because
//! the sessions are paced. A request without a session is placed alike and leaves nothing behind.
//!
//! By default a session moves when its rank cannot be used, and stays where it moved to. A hard one waits for its rank,
//! as long as that rank belongs to the pool; one that left it would be waited for in vain.
//!
//! A caller that names the rank of a request is obeyed. That begins a session, but does not move one: the request may
//! be an experiment, and the cache is still where it was.
//!
//! Each router remembers its own sessions and forgets them when it restarts; `consistent-hash` remembers none.

mod sessions;

use std::time::Duration;

use rand::RngCore;

use kvroute_core::RankKey;

use super::{Bound, NoCandidate, Pick, PickReason, Policy, PolicyOptions, Refusal, choose};
use crate::{Affinity, Candidate, Cost, RequestShape};

use sessions::Sessions;

pub(super) const NAME: &str = "sticky";

/// Sessions that are remembered: some 10 MB at most.
const MOST_SESSIONS: usize = 100_000;

const RANK_AWAY: Refusal = Refusal {
    message: "the session belongs to a worker that cannot be used now, and sessions of this pool do not move: try \
              again later, or begin another session",
    may_pass: true,
};

#[derive(Debug)]
pub(super) struct Sticky {
    sessions: Sessions,
    is_hard: bool,
}

// === impl Sticky ===

impl Sticky {
    pub(super) fn new(options: &PolicyOptions) -> Self {
        let sessions = Sessions::new(options.session_ttl, MOST_SESSIONS);
        Self { sessions, is_hard: options.hard_sessions }
    }

    /// The rank of the request's session, if it is known.
    fn home(&self, affinity: &Affinity, now: Duration) -> Option<RankKey> {
        self.sessions.rank_of(affinity.session?, now)
    }
}

impl Policy for Sticky {
    fn name(&self) -> &'static str {
        NAME
    }

    fn uses_index(&self) -> bool {
        false
    }

    fn reasons(&self) -> &'static [PickReason] {
        &[PickReason::Home, PickReason::NewSession, PickReason::Moved]
    }

    fn binds(&self) -> bool {
        self.is_hard
    }

    fn bound(&self, affinity: &Affinity, now: Duration) -> Bound {
        let home = self.home(affinity, now).filter(|_| self.is_hard);
        home.map_or(Bound::Free, |home| Bound::Home(home, RANK_AWAY))
    }

    fn pick(
        &self,
        request: &RequestShape,
        candidates: &[Candidate],
        costs: &mut Vec<Option<Cost>>,
        rng: &mut dyn RngCore,
    ) -> Result<Pick, NoCandidate> {
        let home = self.home(&request.affinity, request.now);
        let at_home = |position: &usize| Some(candidates[*position].key) == home;
        if let Some(candidate) = choose::eligible_positions(candidates).find(at_home) {
            costs.clear();
            return Ok(Pick { candidate, reason: PickReason::Home });
        }
        let pick = choose::least_loaded(request, candidates, costs, rng)?;
        let reason = match (pick.reason, home) {
            (PickReason::OnlyCandidate, _) => PickReason::OnlyCandidate,
            (_, Some(_)) => PickReason::Moved,
            (_, None) => PickReason::NewSession,
        };
        Ok(Pick { reason, ..pick })
    }

    fn placed(&mut self, request: &RequestShape, rank: &Candidate) {
        let Some(session) = request.affinity.session else { return };
        let is_elsewhere = self.home(&request.affinity, request.now).is_some_and(|home| home != rank.key);
        if !(request.is_pinned && is_elsewhere) {
            self.sessions.remember(session, rank.key, request.now);
        }
    }
}
