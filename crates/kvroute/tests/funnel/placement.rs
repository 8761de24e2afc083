//! F2 − F3: why the rank with the longest cached prefix was not picked. Each way to lose it on two real engines.
//!
//! Costs, in tokens and without recent work: what waits there, and 1.2 times what is to be computed of the prompt.

use kvroute_sim::{Incident, SimConfig, SimEngine};

use super::stage::{Ask, BLOCK, Stage, behave, fleet, hang, ids, lost, pair};

/// A prompt with 20 complete blocks and some tokens more.
pub(crate) const PROMPT: usize = 330;
pub(crate) const CACHED: u64 = 320;

/// Recent work would decide among equals.
const UNBIASED: &str = "recent_weight=0";

/// Runs one act on a stage of its own and holds the metrics against its decisions.
async fn play(reason: &str, act: impl AsyncFnOnce(&Stage, [&SimEngine; 2]) -> u64) {
    let fleet = pair().await;
    let stage = Stage::of(&fleet);
    let [holder, other] = fleet.engines.as_slice() else { panic!("two engines") };
    let tokens = act(&stage, [holder, other]).await;
    behave(holder).await;
    behave(other).await;
    let scrape = fleet.at_rest().await;
    assert_eq!(lost(&scrape, "placement", reason), tokens);
    assert!(tokens > 0);
    stage.assert_decisions_are_the_ledger(&scrape).await;
    fleet.stop().await;
}

/// The decision gave up so many tokens for this reason.
fn assert_gave_up(decision: &serde_json::Value, reason: &str, tokens: u64) {
    let given_up = decision["best_eligible_cached_tokens"].as_u64().unwrap()
        - decision["selected_cached_tokens"].as_u64().unwrap();
    assert_eq!((decision["placement_reason"].as_str(), given_up), (Some(reason), tokens), "{decision:#}");
}

/// Equal costs where credit counts nothing: the draw decides.
pub(crate) async fn tie(stage: &Stage, seed: u32) -> u64 {
    by_draw(stage, seed, "tie", "device_weight=0,recent_weight=0").await
}

/// A temperature that makes every rank about as likely.
pub(crate) async fn sampling(stage: &Stage, seed: u32) -> u64 {
    by_draw(stage, seed, "sampling", "temperature=100,recent_weight=0").await
}

async fn by_draw(stage: &Stage, seed: u32, reason: &str, weights: &str) -> u64 {
    let prompt = ids(seed, PROMPT);
    stage.warm(0, &prompt).await;
    for _ in 0..100 {
        let decision = stage.served(Ask { weights, ..Ask::default() }, &prompt).await;
        if decision["worker_id"] == stage.worker(1) {
            assert_gave_up(&decision, reason, CACHED);
            return CACHED;
        }
    }
    panic!("a hundred draws took the holder")
}

/// The holder has 2,000 tokens waiting, the other one nothing: 2,012 against 396.
pub(crate) async fn load(stage: &Stage, holder: &SimEngine, seed: u32) -> u64 {
    let prompt = ids(seed, PROMPT);
    stage.warm(0, &prompt).await;
    hang(holder).await;
    let waiting =
        stage.sent(Ask { pin: Some(stage.worker(0)), ..Ask::default() }, &ids(seed + 1, 2_000)).await;
    let decision = stage.served(Ask { weights: UNBIASED, ..Ask::default() }, &prompt).await;
    assert_gave_up(&decision, "load", CACHED);
    drop(waiting);
    CACHED
}

/// A request in flight weighs more than the cache, although next to nothing waits there.
pub(crate) async fn request_count(stage: &Stage, holder: &SimEngine, seed: u32) -> u64 {
    let prompt = ids(seed, PROMPT);
    stage.warm(0, &prompt).await;
    hang(holder).await;
    let waiting = stage.sent(Ask { pin: Some(stage.worker(0)), ..Ask::default() }, &ids(seed + 1, 2)).await;
    let weights = "request_weight=1000,decode_weight=0,recent_weight=0";
    let decision = stage.served(Ask { weights, ..Ask::default() }, &prompt).await;
    assert_gave_up(&decision, "request_count", CACHED);
    drop(waiting);
    CACHED
}

/// The holder was given far more than its share, which counts as much as the prompt; the other one lacks as much. A rank that
/// nobody has used yet would be taken to have been given as much as the others.
pub(crate) async fn recent(stage: &Stage, seed: u32) -> u64 {
    let prompt = ids(seed, PROMPT);
    stage.warm(0, &prompt).await;
    stage.warm(1, &ids(seed + 2, BLOCK)).await;
    stage.served(Ask { pin: Some(stage.worker(0)), ..Ask::default() }, &ids(seed + 1, 20_000)).await;
    let decision = stage.served(Ask { weights: "recent_weight=2", ..Ask::default() }, &prompt).await;
    assert_gave_up(&decision, "recent", CACHED);
    CACHED
}

/// The cache earns nothing, and the other one is about to compute the same prompt: 396 against 22.
pub(crate) async fn tier_weight(stage: &Stage, other: &SimEngine, seed: u32) -> u64 {
    let prompt = ids(seed, PROMPT);
    stage.warm(0, &prompt).await;
    hang(other).await;
    let computing = stage.sent(Ask { pin: Some(stage.worker(1)), ..Ask::default() }, &prompt).await;
    let weights = "device_weight=0,recent_weight=0";
    let following = stage.sent(Ask { weights, ..Ask::default() }, &prompt).await;
    assert_gave_up(&following.decision, "tier_weight", CACHED);
    drop((computing, following));
    CACHED
}

/// The holder has the first half, the other one is about to compute all of it: 204 against 22.
pub(crate) async fn expected(stage: &Stage, other: &SimEngine, seed: u32) -> u64 {
    let prompt = ids(seed, PROMPT);
    let half = CACHED / 2;
    stage.warm(0, &prompt[..half as usize + 1]).await;
    hang(other).await;
    let computing = stage.sent(Ask { pin: Some(stage.worker(1)), ..Ask::default() }, &prompt).await;
    let following = stage.sent(Ask { weights: UNBIASED, ..Ask::default() }, &prompt).await;
    assert_gave_up(&following.decision, "expected", half);
    drop((computing, following));
    half
}

/// The holder's cache was wiped without a word and its reports fell short three times, so it earns no credit any more; the
/// index goes on to believe what it was told.
pub(crate) async fn trust(stage: &Stage, holder: &SimEngine, seed: u32) -> u64 {
    let prompt = ids(seed, PROMPT);
    stage.warm(1, &prompt[..18]).await;
    stage.warm(0, &prompt).await;
    for strike in 1..=3 {
        stage.warm(0, &ids(seed + strike, PROMPT)).await;
    }
    holder.cause(Incident::Wipe).await;
    for strike in 1..=3 {
        stage.served(Ask { pin: Some(stage.worker(0)), ..Ask::default() }, &ids(seed + strike, PROMPT)).await;
    }
    stage.until_state(0, |worker| worker["ranks"][0]["source_state"] == "suspect").await;
    let decision = stage.served(Ask { weights: UNBIASED, ..Ask::default() }, &prompt).await;
    assert_gave_up(&decision, "trust", CACHED - 16);
    holder.cause(Incident::Reset).await;
    CACHED - 16
}

#[tokio::test]
async fn placement_is_lost_to_a_tie() {
    play("tie", async |stage, _| tie(stage, 1).await).await;
}

#[tokio::test]
async fn placement_is_lost_to_sampling() {
    play("sampling", async |stage, _| sampling(stage, 1).await).await;
}

#[tokio::test]
async fn placement_is_lost_to_load() {
    play("load", async |stage, [holder, _]| load(stage, holder, 1).await).await;
}

#[tokio::test]
async fn placement_is_lost_to_the_request_count() {
    play("request_count", async |stage, [holder, _]| request_count(stage, holder, 1).await).await;
}

#[tokio::test]
async fn placement_is_lost_to_recent_work() {
    play("recent", async |stage, _| recent(stage, 1).await).await;
}

#[tokio::test]
async fn placement_is_lost_to_the_tier_weight() {
    play("tier_weight", async |stage, [_, other]| tier_weight(stage, other, 1).await).await;
}

#[tokio::test]
async fn placement_is_lost_to_what_another_rank_is_about_to_compute() {
    play("expected", async |stage, [_, other]| expected(stage, other, 1).await).await;
}

#[tokio::test]
async fn placement_is_lost_to_trust() {
    play("trust", async |stage, [holder, _]| trust(stage, holder, 1).await).await;
}

/// Both the load of the holder and the count of its requests are in its way: whatever went last names the loss.
#[tokio::test]
async fn of_two_terms_in_the_way_the_last_one_to_go_names_the_loss() {
    play("request_count", async |stage, [holder, _]| {
        let prompt = ids(1, PROMPT);
        stage.warm(0, &prompt).await;
        hang(holder).await;
        let pin = Ask { pin: Some(stage.worker(0)), ..Ask::default() };
        let waiting = stage.sent(pin, &ids(2, 2_000)).await;
        let weights = "request_weight=1000,recent_weight=0";
        let decision = stage.served(Ask { weights, ..Ask::default() }, &prompt).await;
        assert_gave_up(&decision, "request_count", CACHED);
        drop(waiting);
        CACHED
    })
    .await;
}

#[tokio::test]
async fn placement_is_lost_to_a_policy_that_asks_no_index() {
    let fleet = fleet(vec![SimConfig::default(); 2], |config| {
        let pool = &mut config.router.pools[0];
        (pool.policy, pool.observe) = ("round-robin".to_owned(), true);
    })
    .await;
    let stage = Stage::of(&fleet);
    let prompt = ids(1, PROMPT);
    let first = stage.served(Ask::default(), &prompt).await;
    let holder = stage.workers.iter().position(|worker| first["worker_id"] == worker.as_str()).unwrap();
    stage.until_cached(holder, &prompt, CACHED).await;
    let second = stage.served(Ask::default(), &prompt).await;
    assert_gave_up(&second, "policy", CACHED);
    let scrape = fleet.at_rest().await;
    assert_eq!(lost(&scrape, "placement", "policy"), CACHED);
    stage.assert_decisions_are_the_ledger(&scrape).await;
    fleet.stop().await;
}
