//! A − F2: why no rank with the longest cached prefix could be picked. Each way on two real workers.

use std::time::Duration;

use kvroute_router::config::WorkerConfig;
use kvroute_select::PolicyOptions;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Client, Exposition, Fleet};
use serde_json::{Value, json};

use super::placement::{CACHED, PROMPT};
use super::scripted::Scripted;
use super::stage::{Ask, BLOCK, Stage, fleet, hang, ids, lost, name, pair};

/// The decision could not pick so many tokens for this reason.
fn assert_out_of_reach(decision: &Value, reason: &str, tokens: u64) {
    let given_up = decision["best_cached_tokens"].as_u64().unwrap()
        - decision["best_eligible_cached_tokens"].as_u64().unwrap();
    assert_eq!((decision["eligibility_reason"].as_str(), given_up), (Some(reason), tokens), "{decision:#}");
}

async fn assert_lost(stage: &Stage, scrape: &Exposition, reason: &str) {
    assert_eq!(lost(scrape, "eligibility", reason), CACHED);
    assert_eq!(scrape.count(super::stage::LOST, &[("stage", "eligibility")]), CACHED, "for nothing else");
    stage.assert_decisions_are_the_ledger(scrape).await;
}

/// The caller names the rank that has nothing.
pub(crate) async fn pinned(stage: &Stage, seed: u32) {
    let prompt = ids(seed, PROMPT);
    stage.warm(0, &prompt).await;
    let decision = stage.served(Ask { pin: Some(stage.worker(1)), ..Ask::default() }, &prompt).await;
    assert_out_of_reach(&decision, "pinned", CACHED);
}

/// The session's home has nothing, and it must not leave it. The pool's policy is `sticky`, its sessions are hard.
pub(crate) async fn affinity(stage: &Stage, seed: u32) {
    let (prompt, session) = (ids(seed, PROMPT), format!("session {seed}"));
    let of_session = Ask { session: Some(&session), ..Ask::default() };
    let begun = stage.served(of_session, &ids(seed + 1, 40)).await;
    let home = stage.workers.iter().position(|worker| begun["worker_id"] == worker.as_str()).unwrap();
    stage.warm(1 - home, &prompt).await;
    let decision = stage.served(of_session, &prompt).await;
    assert_eq!(decision["worker_id"], stage.worker(home));
    assert_out_of_reach(&decision, "affinity", CACHED);
}

/// The holder serves the model, and not the adapter that its cache is of.
pub(crate) async fn adapter(client: &Client, stage: &Stage, [holder, server]: [&Scripted; 2], seed: u32) {
    let prompt = ids(seed, PROMPT);
    holder.stores(&prompt, BLOCK, Some("lora")).await;
    stage.asked_as("lora").until_cached(0, &prompt, CACHED).await;
    let answer = client.post(&stage.url(), &scripted("lora", &prompt, holder)).await;
    assert_eq!(answer.header("x-kvroute-worker"), Some(format!("{}/0", server.name).as_str()));
    let decision = stage.decisions().await.remove(0);
    assert_out_of_reach(&decision, "adapter", CACHED);
}

/// The holder hangs up on the request, which goes to the other one.
pub(crate) async fn already_tried(
    client: &Client,
    stage: &Stage,
    [holder, other]: [&Scripted; 2],
    seed: u32,
) {
    let prompt = ids(seed, PROMPT);
    holder.stores(&prompt, BLOCK, None).await;
    stage.until_cached(0, &prompt, CACHED).await;
    let answer = client.post(&stage.url(), &scripted(&stage.model, &prompt, holder)).await;
    assert_eq!(answer.header("x-kvroute-worker"), Some(format!("{}/0", other.name).as_str()));
    let decisions = stage.decisions().await;
    assert_out_of_reach(&decisions[0], "already_tried", CACHED);
    assert_eq!(decisions[1]["worker_id"], holder.name.as_str());
}

/// A request of which one engine knows nothing, and on which another one hangs up.
fn scripted(model: &str, prompt: &[u32], hangs_up: &Scripted) -> Value {
    let details = json!({"cached_tokens": 0});
    let usage = json!({"prompt_tokens": PROMPT, "completion_tokens": 1, "prompt_tokens_details": details});
    json!({
        "model": model, "prompt": prompt, "max_tokens": 1,
        "said": {"usage": usage}, "hangs_up": hangs_up.name,
    })
}

#[tokio::test]
async fn eligibility_is_lost_to_a_pin() {
    let fleet = pair().await;
    let stage = Stage::of(&fleet);
    pinned(&stage, 1).await;
    assert_lost(&stage, &fleet.at_rest().await, "pinned").await;
    fleet.stop().await;
}

#[tokio::test]
async fn eligibility_is_lost_to_affinity() {
    let fleet = fleet(vec![SimConfig::default(); 2], |config| {
        let pool = &mut config.router.pools[0];
        (pool.policy, pool.observe) = ("sticky".to_owned(), true);
        pool.policy_options = PolicyOptions { hard_sessions: true, ..PolicyOptions::default() };
    })
    .await;
    let stage = Stage::of(&fleet);
    affinity(&stage, 1).await;
    assert_lost(&stage, &fleet.at_rest().await, "affinity").await;
    fleet.stop().await;
}

#[tokio::test]
async fn eligibility_is_lost_to_an_unhealthy_worker() {
    let mut fleet = pair().await;
    let stage = Stage::of(&fleet);
    let prompt = ids(1, PROMPT);
    stage.warm(0, &prompt).await;
    let holder = fleet.engines.remove(0);
    assert_eq!(name(&holder), stage.worker(0));
    holder.stop().await;
    stage.until_state(0, |worker| worker["state"] == "unhealthy").await;
    let decision = stage.served(Ask::default(), &prompt).await;
    assert_out_of_reach(&decision, "unhealthy", CACHED);
    assert_lost(&stage, &fleet.at_rest().await, "unhealthy").await;
    fleet.stop().await;
}

#[tokio::test]
async fn eligibility_is_lost_to_an_adapter() {
    let (holder, server) = (Scripted::start(&["base"]).await, Scripted::start(&["base", "lora"]).await);
    let fleet = fleet_of(&[&holder, &server]).await;
    let workers = vec![holder.name.clone(), server.name.clone()];
    let stage = Stage::new(&fleet.client, (&fleet.data(""), &fleet.admin("")), "base", workers);
    adapter(&fleet.client, &stage, [&holder, &server], 1).await;
    assert_lost(&stage, &fleet.at_rest().await, "adapter").await;
    fleet.stop().await;
}

#[tokio::test]
async fn eligibility_is_lost_to_an_earlier_attempt() {
    let (holder, other) = (Scripted::start(&["base"]).await, Scripted::start(&["base"]).await);
    let fleet = fleet_of(&[&holder, &other]).await;
    let workers = vec![holder.name.clone(), other.name.clone()];
    let stage = Stage::new(&fleet.client, (&fleet.data(""), &fleet.admin("")), "base", workers);
    already_tried(&fleet.client, &stage, [&holder, &other], 1).await;
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_router_repeated_input_tokens_total", &[]), PROMPT as u64);
    assert_lost(&stage, &scrape, "already_tried").await;
    fleet.stop().await;
}

/// The holder of most is away, the holder of half has too much to do: each loss has its own stage.
#[tokio::test]
async fn what_is_out_of_reach_and_what_is_passed_over_are_told_apart() {
    let mut fleet = fleet(vec![SimConfig::default(); 3], |_| {}).await;
    let stage = Stage::of(&fleet);
    let (prompt, half) = (ids(1, PROMPT), CACHED / 2);
    stage.warm(0, &prompt).await;
    stage.warm(1, &prompt[..half as usize + 1]).await;
    fleet.engines.remove(0).stop().await;
    stage.until_state(0, |worker| worker["state"] == "unhealthy").await;
    hang(&fleet.engines[0]).await;
    let pin = Ask { pin: Some(stage.worker(1)), ..Ask::default() };
    let waiting = stage.sent(pin, &ids(2, 2_000)).await;
    let decision = stage.served(Ask { weights: "recent_weight=0", ..Ask::default() }, &prompt).await;
    assert_out_of_reach(&decision, "unhealthy", half);
    assert_eq!(decision["placement_reason"], "load");
    drop(waiting);
    let scrape = fleet.at_rest().await;
    assert_eq!((lost(&scrape, "eligibility", "unhealthy"), lost(&scrape, "placement", "load")), (half, half));
    stage.assert_decisions_are_the_ledger(&scrape).await;
    fleet.stop().await;
}

/// One holder hung up, the other one does not serve the adapter: the reason that comes first, whichever holder has it.
#[tokio::test]
async fn of_two_holders_reasons_the_first_in_order_counts() {
    let engines = [Scripted::start(&["base"]).await, adapted().await, adapted().await];
    let [stranger, broken, other] = &engines;
    let fleet = fleet_of(&[stranger, broken, other]).await;
    let workers = engines.iter().map(|engine| engine.name.clone()).collect();
    let stage = Stage::new(&fleet.client, (&fleet.data(""), &fleet.admin("")), "base", workers);
    let (prompt, lora) = (ids(1, PROMPT), stage.asked_as("lora"));
    for (number, holder) in [stranger, broken].into_iter().enumerate() {
        holder.stores(&prompt, BLOCK, Some("lora")).await;
        lora.until_cached(number, &prompt, CACHED).await;
    }
    let answer = fleet.client.post(&stage.url(), &scripted("lora", &prompt, broken)).await;
    assert_eq!(answer.header("x-kvroute-worker"), Some(format!("{}/0", other.name).as_str()));
    let decisions = stage.decisions().await;
    assert_eq!(decisions[1]["worker_id"], broken.name.as_str());
    assert_out_of_reach(&decisions[0], "adapter", CACHED);
    assert_lost(&stage, &fleet.at_rest().await, "adapter").await;
    fleet.stop().await;
}

async fn adapted() -> Scripted {
    Scripted::start(&["base", "lora"]).await
}

/// A router in front of scripted engines, which are all there.
async fn fleet_of(engines: &[&Scripted]) -> Fleet {
    let workers = engines.iter().map(|engine| WorkerConfig::at(engine.url())).collect();
    let fleet = Fleet::start_unfollowed(Vec::new(), |_| {
        let mut config = kvroute_testkit::server_config(&[], "kv");
        config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        config.router.pools[0].workers = workers;
        config.router.pools[0].timeouts.connect = Duration::from_secs(2);
        config
    })
    .await;
    let is_ready = |worker: &Value| worker["state"] == "ready";
    let workers = fleet.admin("/api/workers");
    fleet.client.until(&workers, |answer| answer.json().as_array().unwrap().iter().all(is_ready)).await;
    fleet
}
