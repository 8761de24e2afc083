//! Two engines for one request: the first computes the prompt, the second takes its KV and answers.

mod bootstrap;
mod context;
mod nixl;

use hyper::StatusCode;
use kvroute_sim::{EngineStats, Flavour, SimConfig, SimEngine, SimRole};
use serde_json::Value;

use crate::http::{Answer, until_stats};

/// A prefill engine and a decode engine.
async fn pair(flavour: Flavour, config: SimConfig) -> [SimEngine; 2] {
    let start = |role| crate::http::start(SimConfig { flavour, role, ..config.clone() });
    [start(SimRole::Prefill).await, start(SimRole::Decode).await]
}

fn prompt() -> Vec<u32> {
    (0..40).collect()
}

/// Where the tokens of all prompts came from: computed, reused, transferred.
fn sources(stats: EngineStats) -> (u64, u64, u64) {
    assert_eq!(
        stats.prompt_tokens,
        stats.computed_tokens + stats.reused_tokens + stats.transferred_tokens,
        "{stats:?}"
    );
    (stats.computed_tokens, stats.reused_tokens, stats.transferred_tokens)
}

fn ok(answer: &Answer) -> Value {
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    answer.json()
}

async fn stop(engines: [SimEngine; 2]) {
    for engine in engines {
        until_stats(&engine, "idle", |stats| stats.kv_blocks_held == 0).await;
        engine.stop().await;
    }
}
