//! The funnel of one model as plain numbers, for whoever reads it outside Prometheus.
//!
//! They are read from the very counters that a scrape shows, so that the two cannot contradict each other, and without a
//! lock that a request waits for. What a request moves while it is read may be seen in half, as in a scrape: a later stage
//! is read before an earlier one, so that no share exceeds 1.

use kvroute_core::{Exclusion, Phase, PlacementReason, Tokens};
use kvroute_funnel::{
    Close, DeliveryReason, LossStage, NewReason, ReportOutcome, ResidencyReason, UnavailableReason,
    UncountedReason,
};

/// Counts that only grow, as they stand at one moment.
trait Reading: Sized {
    /// What was added since an earlier moment; `None` if some count is lower than it was, so that its series must have
    /// begun anew in between.
    fn since(&self, earlier: &Self) -> Option<Self>;
}

/// One count, tokens or seconds for each reason of each stage of the loss ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses<T> {
    pub(crate) new: Option<[T; NewReason::ALL.len()]>,
    pub(crate) residency: Option<[T; ResidencyReason::ALL.len()]>,
    pub(crate) unavailable: [T; UnavailableReason::ALL.len()],
    pub(crate) eligibility: [T; Exclusion::ALL.len()],
    pub(crate) placement: [T; PlacementReason::ALL.len()],
    pub(crate) delivery: [T; DeliveryReason::ALL.len()],
}

/// Declares what is read together.
macro_rules! readings {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $kind,)+ }

        impl Reading for $name {
            fn since(&self, earlier: &Self) -> Option<Self> {
                Some(Self { $($field: self.$field.since(&earlier.$field)?,)+ })
            }
        }
    )+};
}

readings! {
    /// The funnel of one model in all its phases.
    ModelFunnel {
        /// By [`Phase`], in the order of [`Phase::ALL`]; `None` where no attempt of the model can have the phase.
        phases: [Option<Box<PhaseFunnel>>; Phase::ALL.len()],
        /// Prefill time of the lost tokens, over all phases: the family has no phase. `None` without a loss ledger.
        lost_seconds: Option<Losses<f64>>,
    }

    /// The funnel of one model in one phase.
    PhaseFunnel {
        /// Everything that exists only where an index is asked.
        ledger: Option<LedgerTotals>,
        /// F2 and F3; `None` where no index is asked.
        cached: Option<CachedTotals>,
        /// F4.
        reused: Tokens,
        /// Input of the attempts that were reported on.
        reported_input: Tokens,
        /// Input of the attempts that could have reported.
        expected_input: Tokens,
        /// What attempts that were reported on had to compute.
        uncached_prefill: Tokens,
        /// Attempts by outcome of their reports, in the order of [`ReportOutcome::ALL`].
        reports: [u64; ReportOutcome::ALL.len()],
        /// Attempts whose prompt was not counted, in the order of [`UncountedReason::ALL`].
        uncounted: [u64; UncountedReason::ALL.len()],
        /// Attempts by ending, in the order of [`Close::ALL`].
        attempts: [u64; Close::ALL.len()],
        /// Input that an earlier attempt of the same request had before.
        repeated_input: Tokens,
        /// F0; `None` where prompts are not counted.
        input: Option<Tokens>,
    }

    /// F2 and F3.
    CachedTotals {
        /// F3: on the picked rank.
        selected: Tokens,
        /// F2: the most on any rank of the set that the picker chose from.
        best: Tokens,
    }

    /// The loss ledger of one model in one phase.
    LedgerTotals {
        /// Every lost token by stage and reason.
        lost: Losses<Tokens>,
        /// What was reused beyond the promise.
        surplus: Tokens,
        /// What was cached beyond F1; `None` where no history is asked.
        residency_surplus: Option<Tokens>,
        /// F4 of the attempts that were compared.
        compared_reported: Tokens,
        /// F3 of the same attempts.
        compared_predicted: Tokens,
        /// A: the most on any rank that could take the attempt, eligible or not.
        anywhere: Tokens,
        /// F1: what some request had computed before, cached or not; `None` where no history is asked.
        history: Option<Tokens>,
        /// Input of the attempts that the ledger covers.
        input: Tokens,
    }
}

// === impl ModelFunnel ===

impl ModelFunnel {
    /// The phases that exist, with their numbers.
    pub fn by_phase(&self) -> impl Iterator<Item = (Phase, &PhaseFunnel)> {
        let phases = Phase::ALL.into_iter().zip(&self.phases);
        phases.filter_map(|(phase, funnel)| Some((phase, funnel.as_deref()?)))
    }

    /// What was added since an earlier moment; `None` if its series have begun anew since then.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        Reading::since(self, earlier)
    }
}

// === impl Losses ===

impl<T: Copy> Losses<T> {
    /// Every reason of a stage with its value, in the order of the ledger; `None` where the stage does not exist.
    pub fn of_stage(&self, stage: LossStage) -> Option<impl Iterator<Item = (&'static str, T)>> {
        let (reasons, values): (_, &[T]) = match stage {
            LossStage::New => (NewReason::VALUES, self.new.as_ref()?),
            LossStage::Residency => (ResidencyReason::VALUES, self.residency.as_ref()?),
            LossStage::Unavailable => (UnavailableReason::VALUES, &self.unavailable),
            LossStage::Eligibility => (Exclusion::VALUES, &self.eligibility),
            LossStage::Placement => (PlacementReason::VALUES, &self.placement),
            LossStage::Delivery => (DeliveryReason::VALUES, &self.delivery),
        };
        Some(reasons.iter().copied().zip(values.iter().copied()))
    }
}

// === impl Reading ===

impl<T: Reading + Clone> Reading for Losses<T> {
    fn since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            new: self.new.since(&earlier.new)?,
            residency: self.residency.since(&earlier.residency)?,
            unavailable: self.unavailable.since(&earlier.unavailable)?,
            eligibility: self.eligibility.since(&earlier.eligibility)?,
            placement: self.placement.since(&earlier.placement)?,
            delivery: self.delivery.since(&earlier.delivery)?,
        })
    }
}

impl Reading for u64 {
    fn since(&self, earlier: &Self) -> Option<Self> {
        self.checked_sub(*earlier)
    }
}

impl Reading for f64 {
    fn since(&self, earlier: &Self) -> Option<Self> {
        (self >= earlier).then_some(self - earlier)
    }
}

impl Reading for Tokens {
    fn since(&self, earlier: &Self) -> Option<Self> {
        self.get().checked_sub(earlier.get()).map(Self::new)
    }
}

/// What did not exist earlier was zero then.
impl<T: Reading + Clone> Reading for Option<T> {
    fn since(&self, earlier: &Self) -> Option<Self> {
        match (self, earlier) {
            (Some(now), Some(earlier)) => now.since(earlier).map(Some),
            (Some(now), None) => Some(Some(now.clone())),
            (None, Some(_)) => None,
            (None, None) => Some(None),
        }
    }
}

impl<T: Reading> Reading for Box<T> {
    fn since(&self, earlier: &Self) -> Option<Self> {
        T::since(self, earlier).map(Self::new)
    }
}

impl<T: Reading, const N: usize> Reading for [T; N] {
    fn since(&self, earlier: &Self) -> Option<Self> {
        let added = self.iter().zip(earlier).map(|(now, earlier)| now.since(earlier));
        added.collect::<Option<Vec<T>>>()?.try_into().ok()
    }
}

#[cfg(test)]
mod tests;
