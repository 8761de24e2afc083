//! The metrics of one attempt: the live router's [`FunnelSink`].

use std::sync::Arc;

use kvroute_core::{Tokens, TokensPerSecond};
use kvroute_funnel::{Closing, DeliveryReason, FunnelSink, Judgement, Opening};

use crate::phase::PhaseMetrics;
use crate::worker::RankHandles;

/// Where one attempt's numbers go. Labels are frozen: phase, model and rank are those of its creation,
/// whatever happens to the pool or the worker meanwhile. So is the speed by which lost tokens become lost time.
#[derive(Clone, Debug)]
pub struct AttemptMetrics {
    phase: Arc<PhaseMetrics>,
    rank: Arc<RankHandles>,
    speed: Option<TokensPerSecond>,
}

// === impl AttemptMetrics ===

impl AttemptMetrics {
    pub(crate) fn new(
        phase: Arc<PhaseMetrics>,
        rank: Arc<RankHandles>,
        speed: Option<TokensPerSecond>,
    ) -> Self {
        Self { phase, rank, speed }
    }
}

impl FunnelSink for AttemptMetrics {
    fn opened(&self, opening: &Opening) {
        self.phase.opened(opening, self.speed);
    }

    fn judged(&self, judgement: &Judgement) {
        self.phase.judged(judgement);
        if let Some(delivery) = &judgement.delivery {
            self.rank.compared(delivery);
        }
    }

    fn undelivered(&self, reason: DeliveryReason, tokens: Tokens) {
        self.phase.undelivered(reason, tokens, self.speed);
    }

    fn closed(&self, closing: &Closing) {
        self.phase.closed(closing);
    }
}
