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

use rand::RngCore;

use kvroute_core::RankKey;

use super::{NoCandidate, Pick, PickReason, Policy, PolicyOptions, Refusal, choose};
use crate::{Candidate, Cost, Exclusion, RequestShape};

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
    fn home(&self, request: &RequestShape) -> Option<RankKey> {
        self.sessions.rank_of(request.affinity.session?, request.now)
    }

    /// The rank that the request must go to.
    fn only_home(&self, request: &RequestShape) -> Option<RankKey> {
        if !self.is_hard || request.is_pinned {
            return None;
        }
        self.home(request)
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

    fn restrict(&self, request: &RequestShape, candidates: &mut [Candidate]) {
        let Some(home) = self.only_home(request) else { return };
        if candidates.iter().any(|candidate| candidate.key == home) {
            let others = candidates.iter_mut().filter(|candidate| candidate.key != home);
            others.for_each(|candidate| candidate.exclude(Exclusion::Affinity));
        }
    }

    fn why_none(&self, _: &RequestShape, candidates: &[Candidate]) -> Option<Refusal> {
        let is_restricted = |candidate: &Candidate| candidate.excluded == Some(Exclusion::Affinity);
        candidates.iter().any(is_restricted).then_some(RANK_AWAY)
    }

    fn pick(
        &self,
        request: &RequestShape,
        candidates: &[Candidate],
        costs: &mut Vec<Option<Cost>>,
        rng: &mut dyn RngCore,
    ) -> Result<Pick, NoCandidate> {
        let home = self.home(request);
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
        let is_elsewhere = self.home(request).is_some_and(|home| home != rank.key);
        if !(request.is_pinned && is_elsewhere) {
            self.sessions.remember(session, rank.key, request.now);
        }
    }
}
