//! `direct`: each request goes where its caller says, and nowhere else.
//!
//! For callers with a placement of their own, who want the router's accounting and none of its choices. A request that
//! names nobody is refused at once instead of going anywhere: it would hide that the caller forgot the header.

use std::time::Duration;

use rand::RngCore;

use super::{Bound, NoCandidate, Pick, PickReason, Policy, Refusal, choose};
use crate::{Affinity, Candidate, Cost, RequestShape};

pub(super) const NAME: &str = "direct";

const NAMES_NOBODY: Refusal = Refusal {
    message: "policy `direct` sends a request only where its caller says: name the worker in the header \
              `x-kvroute-worker`, from an address listed in `server.trusted`",
    may_pass: false,
};

#[derive(Debug)]
pub(super) struct Direct;

// === impl Direct ===

impl Policy for Direct {
    fn name(&self) -> &'static str {
        NAME
    }

    fn uses_index(&self) -> bool {
        false
    }

    fn reasons(&self) -> &'static [PickReason] {
        &[]
    }

    fn binds(&self) -> bool {
        true
    }

    fn bound(&self, _: &Affinity, _: Duration) -> Bound {
        Bound::Nowhere(NAMES_NOBODY)
    }

    /// A caller may name a worker and leave it open which of its ranks: the least loaded one then.
    fn pick(
        &self,
        request: &RequestShape,
        candidates: &[Candidate],
        costs: &mut Vec<Option<Cost>>,
        rng: &mut dyn RngCore,
    ) -> Result<Pick, NoCandidate> {
        let pick = choose::least_loaded(request, candidates, costs, rng)?;
        let is_only = pick.reason == PickReason::OnlyCandidate;
        Ok(if is_only { pick } else { Pick { reason: PickReason::Pinned, ..pick } })
    }
}
