//! What a demo will do, decided before anything is started.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{BlockSize, Tokens};
use kvroute_replay::TokenRange;
use kvroute_select::policy;

use super::conversations::{ChatShape, Conversation, conversations};
use super::flags::DemoFlags;
use super::pace::Pace;
use super::recording::Recording;
use crate::failure::Failure;

/// A demo's fleet and its workload, the same for every run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) policies: Vec<String>,
    pub(crate) workers: u32,
    pub(crate) kv_blocks: u32,
    pub(crate) block_size: BlockSize,
    /// Longest prompt and answer that an engine takes, where it is known.
    pub(crate) max_model_len: Option<u32>,
    pub(crate) prefill_tps: u64,
    pub(crate) decode_tps: u64,
    pub(crate) seed: u64,
    pub(crate) duration: Option<Duration>,
    /// Requests in flight at most.
    pub(crate) concurrency: usize,
    pub(crate) workload: Workload,
}

/// What is asked of the fleet.
#[derive(Debug)]
pub(crate) enum Workload {
    /// A closed loop of chats, with this many tokens in each answer.
    Conversations(Vec<Conversation>, u64),
    /// A recorded open loop.
    Recording(Arc<Recording>, Pace),
}

/// Speeds of one engine at the recorded pace: a mid-size model on one accelerator.
const TRACE_PREFILL_TPS: u64 = 20_000;
const TRACE_DECODE_TPS: u64 = 60;

/// Slow enough that a saved prefill can be felt, fast enough that a run ends within seconds.
const CHAT_PREFILL_TPS: u64 = 40_000;
const CHAT_DECODE_TPS: u64 = 2_000;

const CHAT_REQUESTS: usize = 320;
const TRACE_REQUESTS: usize = 1000;

/// One engine holds about a third of the system prompts, four hold all of them and the histories.
const CHAT_KV_BLOCKS: u32 = 384;

/// 4 M tokens: what an engine with fast host memory holds.
const TRACE_KV_BLOCKS: u32 = 8000;

/// Conversations held at the same time, by worker.
const SPEAKERS_PER_WORKER: usize = 7;

/// Requests of a trace in flight, by worker, before arrivals are held back. Without a pace of its own the bound
/// is the pace: so low that a request finds what the ones before it left in the caches.
const IN_FLIGHT_PER_WORKER: usize = 64;
const IN_FLIGHT_PER_WORKER_AT_MAX: usize = 4;

// === impl Plan ===

impl Plan {
    /// Checks the flags and makes the workload. Prompts of a trace are drawn from `ids`.
    pub(crate) fn new(flags: &DemoFlags, ids: TokenRange) -> Result<Self, Failure> {
        for name in &flags.policies {
            policy::by_name(name, &policy::PolicyOptions::default())
                .map_err(|error| Failure::Usage(format!("--policy: {error}")))?;
        }
        match &flags.trace {
            Some(path) => Self::of_trace(flags, path, ids),
            None => Ok(Self::of_conversations(flags)),
        }
    }

    /// Requests that a run sends if its time allows.
    pub(crate) fn requests(&self) -> usize {
        match &self.workload {
            Workload::Conversations(conversations, _) => {
                conversations.iter().map(|conversation| conversation.turns.len()).sum()
            }
            Workload::Recording(recording, _) => recording.len(),
        }
    }

    fn of_conversations(flags: &DemoFlags) -> Self {
        let shape = ChatShape::DEMO;
        let requests = flags.requests.map_or(CHAT_REQUESTS, usize::from);
        Self {
            policies: flags.policies.clone(),
            workers: flags.workers,
            kv_blocks: flags.kv_blocks.map_or(CHAT_KV_BLOCKS, u32::from),
            block_size: BlockSize::DEFAULT,
            max_model_len: None,
            prefill_tps: CHAT_PREFILL_TPS,
            decode_tps: CHAT_DECODE_TPS,
            seed: flags.seed,
            duration: flags.duration,
            concurrency: flags.workers as usize * SPEAKERS_PER_WORKER,
            workload: Workload::Conversations(
                conversations(&shape, requests, flags.seed),
                shape.answer_tokens,
            ),
        }
    }

    /// The engines' blocks are the trace's, so that `--kv-blocks` counts what the trace counts.
    fn of_trace(flags: &DemoFlags, path: &Path, ids: TokenRange) -> Result<Self, Failure> {
        let requests = flags.requests.map_or(TRACE_REQUESTS, usize::from);
        let recording = Recording::read(path, requests, ids, flags.seed)?;
        let block_size = recording.block_size();
        let kv_blocks = flags.kv_blocks.map_or(TRACE_KV_BLOCKS, u32::from);
        let in_flight_per_worker = match flags.speed {
            Pace::Times(_) => IN_FLIGHT_PER_WORKER,
            Pace::Max => IN_FLIGHT_PER_WORKER_AT_MAX,
        };
        Ok(Self {
            policies: flags.policies.clone(),
            workers: flags.workers,
            kv_blocks,
            block_size,
            max_model_len: Some(context_for(&recording, kv_blocks)?),
            prefill_tps: flags.speed.engine_speed(TRACE_PREFILL_TPS),
            decode_tps: flags.speed.engine_speed(TRACE_DECODE_TPS),
            seed: flags.seed,
            duration: flags.duration,
            concurrency: flags.workers as usize * in_flight_per_worker,
            workload: Workload::Recording(Arc::new(recording), flags.speed),
        })
    }
}

/// The engines must take the longest request of the trace, or the run would count refusals.
fn context_for(recording: &Recording, kv_blocks: u32) -> Result<u32, Failure> {
    let longest = recording.longest();
    let needed = recording.block_size().occupied_blocks(longest).get();
    let context = Tokens::new(longest.get() + 1);
    match u32::try_from(context.get()) {
        Ok(context) if needed < u64::from(kv_blocks) => Ok(context),
        _ => Err(Failure::Usage(format!(
            "--kv-blocks {kv_blocks}: the longest request of the trace has {longest} tokens with its answer; \
             give more than {needed} blocks, or fewer --requests"
        ))),
    }
}
