//! How the caches of a joining worker will be known: by its events, from the router's memory, or not at all.

use kvroute_core::{BlockSize, Blocks, DpRank, RankSlot, SourceState, WorkerRank};
use kvroute_engine::Probe;
use kvroute_engine::events::{BlockSizeClaim, EventAddress, EventFollower, EventStream};
use kvroute_index::{RankSnapshot, RememberedRank};
use kvroute_metrics::Metrics;
use kvroute_zmtp::Endpoint;

use crate::config::{EventEndpoint, IndexSource, WorkerConfig};
use crate::memory::Memory;
use crate::pool::Pool;
use crate::source::RankSource;
use crate::worker::Worker;

/// One rank's way to be known, opened before the rank exists: an address that is taken leaves nothing behind.
pub(crate) struct OpenSource {
    pub(crate) name: WorkerRank,
    /// Follows its events, where it publishes them.
    pub(crate) follower: Option<EventFollower>,
    /// What a snapshot kept of it.
    pub(crate) restored: Option<RankSnapshot>,
}

/// What is known of a rank's cache before anything is known to be in it.
pub(crate) struct CacheShape {
    pub(crate) slot: RankSlot,
    pub(crate) block_size: BlockSize,
    /// Blocks that it can hold, where the engine says so.
    pub(crate) capacity: Option<Blocks>,
}

/// Opens the sources of all ranks of a worker.
pub(crate) async fn open(
    pool: &Pool,
    worker: &Worker,
    found: &Probe,
    dp_ranks: u32,
) -> Result<Vec<OpenSource>, String> {
    let mut opened = Vec::new();
    for dp_rank in (0..dp_ranks).map(DpRank::new) {
        let name = WorkerRank::new(worker.id().clone(), dp_rank);
        opened.push(open_one(pool, name, worker.config(), found).await?);
    }
    Ok(opened)
}

async fn open_one(
    pool: &Pool,
    name: WorkerRank,
    config: &WorkerConfig,
    found: &Probe,
) -> Result<OpenSource, String> {
    let Some(mut stream) = event_stream(pool, &name, config, found) else {
        return Ok(OpenSource { name, follower: None, restored: None });
    };
    let snapshot = pool.snapshot().and_then(|file| file.take(pool.model(), &name));
    let restored = snapshot.filter(|kept| kept.last.is_some());
    stream.resume = restored.as_ref().and_then(|kept| kept.last);
    if let (BlockSizeClaim::Unknown, Some(kept)) = (stream.block_size, &restored) {
        stream.block_size = kept.export.block_size.map(BlockSizeClaim::Told).unwrap_or_default();
    }
    let opened = EventFollower::open(stream).await;
    let follower = opened.map_err(|error| format!("kv_events of rank {name}: {error}"))?;
    let follower = follower.calling_as(pool.config().tls.clone());
    Ok(OpenSource { name, follower: Some(follower), restored })
}

fn event_stream(pool: &Pool, name: &WorkerRank, config: &WorkerConfig, found: &Probe) -> Option<EventStream> {
    if pool.config().index.source == IndexSource::Remembered {
        return None;
    }
    let announced = found.events.iter().find(|announced| announced.dp_rank == name.dp_rank);
    let shifted = |endpoint: &Endpoint| at_rank(endpoint, name.dp_rank);
    let events = match &config.kv_events {
        EventEndpoint::None => return None,
        EventEndpoint::Auto => announced.map(|announced| announced.events.clone())?,
        EventEndpoint::Connect(endpoint) => EventAddress::Connect(shifted(endpoint)),
        EventEndpoint::Bind(endpoint) => EventAddress::Bind(shifted(endpoint)),
    };
    let replay = match &config.kv_replay {
        EventEndpoint::Auto => announced.and_then(|announced| announced.replay.clone()),
        EventEndpoint::Connect(endpoint) => Some(shifted(endpoint)),
        EventEndpoint::None | EventEndpoint::Bind(_) => None,
    };
    let topic = announced.map(|announced| announced.topic.clone()).unwrap_or_default();
    let start_time_url = Some(config.url.clone());
    let told = found.block_size_claim();
    let block_size = pool.config().block_size.map_or(told, BlockSizeClaim::Required);
    Some(EventStream { rank: name.clone(), events, replay, topic, resume: None, start_time_url, block_size })
}

/// Rank r of a worker publishes at the base port + r.
fn at_rank(base: &Endpoint, rank: DpRank) -> Endpoint {
    let shift = u16::try_from(rank.get()).unwrap_or(u16::MAX);
    Endpoint::new(base.host(), base.port().saturating_add(shift))
}

/// The source of a rank that is about to join, with what a snapshot kept of it back in the index.
pub(crate) fn source_of(
    pool: &Pool,
    opened: &OpenSource,
    cache: &CacheShape,
    metrics: &Metrics,
) -> Option<RankSource> {
    let now = pool.knowledge().now();
    let name = &opened.name;
    if opened.follower.is_some() {
        if let Some(kept) = &opened.restored {
            let blocks = pool.knowledge().restore(cache.slot, &kept.export).stored;
            tracing::info!(rank = %name, blocks, "index restored from the snapshot, its event stream will confirm it");
        }
        let shown = metrics.source(name, SourceState::Degraded);
        let last = opened.restored.as_ref().and_then(|kept| kept.last);
        return Some(RankSource::reported(name, cache.capacity, last, shown, now));
    }
    let config = pool.config();
    let index = &config.index;
    if !pool.asks_index() || index.source == IndexSource::Reported {
        return None;
    }
    let remembered = RememberedRank::new(cache.slot, cache.block_size, index.ttl, cache.capacity);
    let memory = Memory::new(remembered, metrics.remembered(name));
    Some(RankSource::remembered(name, memory, metrics.source(name, SourceState::Remembered), now))
}
