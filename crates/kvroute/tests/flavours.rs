//! Every engine that is simulated, behind the real router, through everything that happens to requests.
//!
//! One table: a scenario a row, an engine a column. After each cell nothing is in flight, the books close, the router's
//! F4 is what the engine itself counted as reused, and where the engine tells its cache, what the router expected of it
//! (F3, as far as whole blocks of all but the last token go) is what the engine reported.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

#[path = "flavours/figures.rs"]
mod figures;
#[path = "flavours/scenario.rs"]
mod scenario;
#[path = "flavours/world.rs"]
mod world;

use kvroute_sim::Flavour;
use scenario::Scenario;
use world::World;

/// All rows of one column.
async fn column(flavour: Flavour) {
    let world = World::of(flavour).await;
    for scenario in Scenario::ALL {
        world.play(scenario).await;
    }
    world.end().await;
}

#[tokio::test]
async fn vllm() {
    column(Flavour::Vllm).await;
}

#[tokio::test]
async fn sglang() {
    column(Flavour::Sglang).await;
}

#[tokio::test]
async fn tensorrt_llm() {
    column(Flavour::TrtLlm).await;
}

#[tokio::test]
async fn llama_cpp() {
    column(Flavour::LlamaCpp).await;
}
