//! How many data-parallel ranks a worker has, where several of its answers say so.

use super::Probe;

/// Ranks that one worker is believed to have. Each is a cache with a place in every table, and no engine has so many.
pub(crate) const MAX_DP_RANKS: u32 = 1024;

/// One answer's number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankClaim {
    /// The path that was asked.
    pub path: &'static str,
    /// How many it says there are.
    pub ranks: u32,
}

// === impl Probe ===

impl Probe {
    /// Takes a claim that there are just so many ranks, unless it cannot be true.
    pub(crate) fn claim_ranks(&mut self, path: &'static str, ranks: u32) -> bool {
        let is_plausible = self.has_ranks(ranks);
        if is_plausible && ranks > 0 {
            self.rank_claims.push(RankClaim { path, ranks });
        }
        is_plausible
    }

    /// Takes it that there are so many ranks at least, or notes that it cannot be true.
    pub(crate) fn has_ranks(&mut self, ranks: u32) -> bool {
        let is_plausible = ranks <= MAX_DP_RANKS;
        if is_plausible {
            self.dp_ranks = self.dp_ranks.max(ranks);
        } else {
            self.notes.push(format!(
                "claims {ranks} data-parallel ranks, more than {MAX_DP_RANKS} are not believed: set the worker's dp_ranks"
            ));
        }
        is_plausible
    }
}
