//! What the funnel counted in the last minutes: readings of it, taken now and then, and the difference to one of them.
//!
//! Counters only tell what happened since the start. A reading every few seconds for an hour is enough to tell what happened
//! since then, to within those seconds; of a model that nobody uses every reading is the same one, kept once. No clock is
//! read here: whoever takes a reading says when.
//!
//! A model that is gone takes its readings along, and so does one whose series began anew: the difference to what another
//! owner of the name had counted would be no number of tokens.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kvroute_core::ModelName;
use kvroute_metrics::ModelFunnel;

/// How often a reading is taken.
pub(crate) const READ_EVERY: Duration = Duration::from_secs(5);

/// Age beyond which no reading is needed.
const KEPT: Duration = Duration::from_secs(3600);

/// Readings that are kept at most, however the clock jumps.
const MOST_READINGS: usize = (KEPT.as_secs() / READ_EVERY.as_secs()) as usize + 2;

/// The funnel of every model that there is.
pub(crate) type Funnels = BTreeMap<ModelName, Arc<ModelFunnel>>;

/// How far back somebody looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunnelSpan {
    /// To the start of the router.
    All,
    /// So far, as near as a reading is.
    Last(Duration),
}

/// The readings of the last hour, oldest first.
#[derive(Debug)]
pub(crate) struct FunnelWindow {
    readings: VecDeque<FunnelReading>,
}

/// One reading.
#[derive(Clone, Debug, Default)]
struct FunnelReading {
    /// When, after the start of the router.
    at: Duration,
    funnels: Funnels,
}

// === impl FunnelWindow ===

impl FunnelWindow {
    /// Before anything was counted.
    pub(crate) fn new() -> Self {
        Self { readings: VecDeque::from([FunnelReading::default()]) }
    }

    /// Takes a reading at a time that is not before that of the latest one.
    pub(crate) fn take(&mut self, at: Duration, mut funnels: Funnels) {
        self.forget_what_is_gone(&funnels);
        if let Some(latest) = self.readings.back() {
            keep_once(&mut funnels, &latest.funnels);
        }
        self.readings.push_back(FunnelReading { at, funnels });
        while self.is_oldest_needless(at) {
            self.readings.pop_front();
        }
    }

    /// What was counted between a reading and now, and how long ago that was: the latest reading that is as old as asked,
    /// or the oldest one.
    pub(crate) fn difference(
        &self,
        now: Duration,
        funnels: &Funnels,
        span: FunnelSpan,
    ) -> (Duration, Funnels) {
        let start = FunnelReading::default();
        let earlier = match span {
            FunnelSpan::All => &start,
            FunnelSpan::Last(asked) => {
                let is_old_enough = |reading: &&FunnelReading| now.saturating_sub(reading.at) >= asked;
                let found = self.readings.iter().rev().find(is_old_enough);
                found.or_else(|| self.readings.front()).unwrap_or(&start)
            }
        };
        let since = |(model, funnel): (&ModelName, &Arc<ModelFunnel>)| {
            let added = earlier.funnels.get(model).and_then(|earlier| funnel.since(earlier));
            (model.clone(), added.map_or_else(|| Arc::clone(funnel), Arc::new))
        };
        (now.saturating_sub(earlier.at), funnels.iter().map(since).collect())
    }

    /// Removes the readings of models that are not there any more, or not as the same ones.
    fn forget_what_is_gone(&mut self, funnels: &Funnels) {
        let Some(latest) = self.readings.back() else { return };
        let goes_on = |model: &ModelName, before: &ModelFunnel| {
            funnels.get(model).is_some_and(|now| now.since(before).is_some())
        };
        let gone = latest.funnels.iter().filter(|(model, before)| !goes_on(model, before));
        let gone: Vec<_> = gone.map(|(model, _)| model.clone()).collect();
        if gone.is_empty() {
            return;
        }
        for reading in &mut self.readings {
            reading.funnels.retain(|model, _| !gone.contains(model));
        }
    }

    /// Whether the oldest reading is of no use because the next one is old enough, or there are too many.
    fn is_oldest_needless(&self, now: Duration) -> bool {
        let is_next_old = |next: &FunnelReading| now.saturating_sub(next.at) >= KEPT;
        self.readings.len() > MOST_READINGS || self.readings.get(1).is_some_and(is_next_old)
    }
}

/// What did not change is the reading before.
fn keep_once(funnels: &mut Funnels, before: &Funnels) {
    for (model, funnel) in funnels {
        if let Some(same) = before.get(model).filter(|before| *before == funnel) {
            *funnel = Arc::clone(same);
        }
    }
}

#[cfg(test)]
mod tests;
