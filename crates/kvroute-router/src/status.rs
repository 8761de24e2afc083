//! What the planes show of pools and workers.

use std::sync::Arc;

use kvroute_core::SourceState;
use serde::Serialize;

use crate::config::{EventEndpoint, IndexSource, PoolConfig};
use crate::pool::Pool;
use crate::rank::Rank;
use crate::roster::{Roster, WorkerSource};
use crate::worker::Worker;

/// `GET /v1/models`, in OpenAI's shape.
#[derive(Clone, Debug, Serialize)]
pub struct ModelList {
    object: &'static str,
    data: Vec<ModelEntry>,
}

#[derive(Clone, Debug, Serialize)]
struct ModelEntry {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    /// The pool's model, for an alias or an adapter.
    parent: Option<String>,
}

/// One worker, as `GET /api/workers` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerStatus {
    /// Its name, as in metric labels.
    pub id: String,
    /// Its address.
    pub url: String,
    /// The model of its pool; absent until it has joined one.
    pub model: Option<String>,
    /// Which phases it serves.
    pub role: &'static str,
    /// Whether it takes requests.
    pub state: &'static str,
    /// What is wrong with it; empty if nothing.
    pub problem: String,
    /// Whether it takes no new requests because it was told to, whatever else is wrong with it.
    pub draining: bool,
    /// Who named it: `configured`, `added` or `discovered`.
    pub source: Option<&'static str>,
    /// Attempts of this router that still run there.
    pub running: u64,
    /// Whether the router's tokens are its engine's; absent where its prompts are not counted.
    pub identity: Option<IdentityStatus>,
    /// Its KV caches; empty until it has joined a pool.
    pub ranks: Vec<RankStatus>,
}

/// Whether the router cuts prompts into the tokens of a worker's engine.
#[derive(Clone, Debug, Serialize)]
pub struct IdentityStatus {
    /// `proven`, `unproven` or `mismatch`.
    pub state: &'static str,
    /// What was compared, kind by kind, or why nothing was.
    pub reason: String,
}

/// One rank of a worker.
#[derive(Clone, Debug, Serialize)]
pub struct RankStatus {
    /// The engine's number of the rank.
    pub dp_rank: u32,
    /// How far the index can be trusted; absent where nothing is known of the rank's cache.
    pub source_state: Option<&'static str>,
    /// Why the source is not exact, and what would help.
    pub source_reason: String,
    /// Tokens a block.
    pub block_size: u32,
    /// Device blocks that the index holds for it.
    pub blocks: u64,
}

// === impl ModelList ===

impl ModelList {
    pub(crate) fn of(pools: &[Arc<Pool>]) -> Self {
        Self {
            object: "list",
            data: pools.iter().filter(|pool| !pool.is_vacant()).flat_map(|pool| entries(pool)).collect(),
        }
    }
}

fn entries(pool: &Pool) -> Vec<ModelEntry> {
    let entry = |id: &str, parent: Option<&str>| ModelEntry {
        id: id.to_owned(),
        object: "model",
        created: 0,
        owned_by: "kvroute",
        parent: parent.map(str::to_owned),
    };
    let model = pool.model().as_str();
    let fleet = pool.fleet();
    let config = pool.config();
    let others = config.aliases.iter().chain(&fleet.adapters);
    let mut entries = vec![entry(model, None)];
    entries.extend(others.map(|name| entry(name, Some(model))));
    entries
}

// === impl WorkerStatus ===

impl WorkerStatus {
    pub(crate) fn all(roster: &Roster, pools: &[Arc<Pool>]) -> Vec<Self> {
        roster.all().iter().map(|worker| Self::of(worker, roster, pools)).collect()
    }

    /// Of a worker that is, or was a moment ago, on the roster.
    pub(crate) fn of(worker: &Arc<Worker>, roster: &Roster, pools: &[Arc<Pool>]) -> Self {
        let pool = pools.iter().find(|pool| pool.has(worker));
        Self {
            id: worker.id().to_string(),
            url: worker.config().url.clone(),
            model: pool.map(|pool| pool.model().to_string()),
            role: worker.config().role.as_str(),
            state: worker.state().as_str(),
            problem: worker.problem().to_string(),
            draining: worker.is_draining(),
            source: roster.source(worker).map(WorkerSource::as_str),
            running: pool.map_or(0, |pool| pool.running_on(worker)),
            identity: pool.and_then(|pool| IdentityStatus::of(worker, pool)),
            ranks: pool.map(|pool| RankStatus::all(worker, pool)).unwrap_or_default(),
        }
    }
}

// === impl IdentityStatus ===

impl IdentityStatus {
    fn of(worker: &Worker, pool: &Pool) -> Option<Self> {
        let (state, reason) = pool.counter().identity().status(worker.id())?;
        Some(Self { state: state.as_str(), reason })
    }
}

// === impl RankStatus ===

impl RankStatus {
    fn all(worker: &Arc<Worker>, pool: &Pool) -> Vec<Self> {
        let fleet = pool.fleet();
        let ranks = fleet.ranks.iter().filter(|rank| Arc::ptr_eq(&rank.worker, worker));
        ranks.map(|rank| Self::of(rank, pool)).collect()
    }

    fn of(rank: &Rank, pool: &Pool) -> Self {
        let source = rank.source.as_ref().map(|source| source.status());
        let followed = source.as_ref().filter(|status| status.state != SourceState::Remembered);
        let reason = match followed {
            Some(status) => status.reason.clone(),
            None => events_remedy(rank, &pool.config()).to_owned(),
        };
        Self {
            dp_rank: rank.name.dp_rank.get(),
            source_state: source.map(|status| status.state.as_str()),
            source_reason: reason,
            block_size: rank.block_size().get(),
            blocks: pool.knowledge().index().blocks(rank.slot).get(),
        }
    }
}

/// What to change so that the rank's events are followed.
pub(crate) fn events_remedy(rank: &Rank, pool: &PoolConfig) -> &'static str {
    match (pool.index.source, &rank.worker.config().kv_events) {
        (IndexSource::Remembered, _) => {
            "pool.index.source is \"remembered\": set it to \"auto\" to follow KV events"
        }
        (_, EventEndpoint::None) => {
            "the worker's kv_events is \"none\": set it to \"auto\" to follow KV events"
        }
        _ => rank.engine.events_remedy(),
    }
}
