//! Which ranks may serve a request, said by what a rank must be.
//!
//! While a request waits, ranks join and leave, and their slots pass on to others. So a request does not keep the ranks
//! that it found when it came: it keeps what it wants of a rank, and every look at the fleet judges that anew.

use std::sync::Arc;

use kvroute_core::{Phase, RankKey};
use kvroute_engine::EngineKind;

use crate::fleet::Fleet;
use crate::hints::Pin;
use crate::rank::Rank;
use crate::worker::Worker;

/// What a rank must be to serve a request; without any further wish every rank that takes its phase will do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lane {
    /// What it is to do of the request.
    pub(crate) phase: Phase,
    /// The kind of engine that the prompt's KV comes from; `None` where it comes from nobody.
    pub(crate) engine: Option<EngineKind>,
    /// The rank or ranks that the caller named.
    pub(crate) pin: Option<Pin>,
    /// The adapter that the request asks for.
    pub(crate) adapter: Option<Arc<str>>,
    /// Where the policy wants it to stay.
    pub(crate) home: Option<Home>,
}

/// The rank that a request belongs to, as long as that rank belongs to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Home {
    pub(crate) rank: RankKey,
    /// What to say where it cannot be used.
    pub(crate) away: &'static str,
}

// === impl Lane ===

impl Lane {
    /// Any rank that takes attempts of this phase.
    pub(crate) const fn any(phase: Phase) -> Self {
        Self { phase, engine: None, pin: None, adapter: None, home: None }
    }

    /// Whether a rank is what the caller and the request ask for.
    fn suits(&self, rank: &Rank) -> bool {
        rank.takes(self.phase)
            && self.engine.is_none_or(|engine| rank.engine == engine)
            && self.pin.as_ref().is_none_or(|pin| pin.names(&rank.name))
            && self.adapter.as_ref().is_none_or(|adapter| rank.serves_adapter(adapter))
    }

    /// Whether a worker of which nothing but the configuration is known may turn out to be what is asked for.
    pub(crate) fn may_suit(&self, worker: &Worker) -> bool {
        worker.config().role.takes(self.phase)
            && self.pin.as_ref().is_none_or(|pin| pin.may_name(worker.config()))
    }
}

// === impl Fleet ===

impl Fleet {
    /// The ranks that may serve such a request, whether they take requests now or not.
    pub(crate) fn suiting<'a>(&'a self, lane: &'a Lane) -> impl Iterator<Item = &'a Arc<Rank>> {
        let home = self.home_of(lane).map(|rank| rank.key);
        let is_home = move |rank: &&Arc<Rank>| home.is_none_or(|home| rank.key == home);
        self.ranks.iter().filter(is_home).filter(|rank| lane.suits(rank))
    }

    /// The ranks that may get such a request now: those that take requests; where none does, those that are out only for
    /// what they failed at before. A caller that names a rank gets that one or none.
    pub(crate) fn usable<'a>(&'a self, lane: &'a Lane) -> impl Iterator<Item = &'a Arc<Rank>> {
        let takes_requests = |rank: &Arc<Rank>| rank.worker.takes_requests();
        let is_nobody_well = lane.pin.is_none() && !self.suiting(lane).any(takes_requests);
        let may_try = move |rank: &Arc<Rank>| is_nobody_well && rank.worker.may_be_tried();
        self.suiting(lane).filter(move |rank| takes_requests(rank) || may_try(rank))
    }

    /// The rank that such a request belongs to; `None` if there is none, or it has left the pool.
    pub(crate) fn home_of(&self, lane: &Lane) -> Option<&Arc<Rank>> {
        let home = lane.home?;
        self.ranks.iter().find(|rank| rank.key == home.rank)
    }

    /// Names of the ranks that serve an adapter, with commas between them.
    pub(crate) fn serving(&self, adapter: &str) -> String {
        let serving = self.ranks.iter().filter(|rank| rank.serves_adapter(adapter));
        serving.map(|rank| rank.name.to_string()).collect::<Vec<_>>().join(", ")
    }
}
