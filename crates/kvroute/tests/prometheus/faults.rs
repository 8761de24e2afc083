//! What must happen so that every family moves: mostly what goes wrong.

use kvroute_metrics::{Row, rows};
use kvroute_sim::{Faults, Incident};
use kvroute_testkit::{Answer, Exposition};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::database::Database;
use super::world::{BUSY, Engine, KV, LARGE, MUTE, PLAIN, SPLIT, UNCOUNTED, World, body, prompt};

/// How often something is tried that depends on chance, and succeeds about every other time.
const TRIES: u32 = 64;

/// All of it, one after the other. Ends with everything at rest.
pub(crate) async fn all(world: World, database: &Database) -> World {
    refused(&world).await;
    a_failure_that_no_other_worker_may_mend(&world).await;
    promises_that_are_broken_and_exceeded(&world).await;
    lost_events(&world).await;
    more_than_the_index_may_know(&world).await;
    world.complete(PLAIN, &prompt(1, 64), false).await;
    small_caches(&world).await;
    waiting(&world, database).await;
    endless_answers(&world, database).await;
    broken_connections(&world).await;
    streams_that_go_on(&world).await;
    prompts_that_are_not_handed_over(&world).await;
    let world = a_worker_that_dies(world).await;
    world.at_rest().await;
    world
}

/// Nothing that any worker could do about it.
async fn refused(world: &World) {
    let (client, completions) = (&world.fleet.client, world.fleet.data("/v1/completions"));
    assert_eq!(client.post(&completions, &body("nobody", &[300], false)).await.status, 404);
    assert_eq!(client.get(&world.fleet.data("/no/such/path")).await.status, 404);
    let mut stranger = TcpStream::connect(world.fleet.server.data_address()).await.unwrap();
    stranger.write_all(b"this is no HTTP\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stranger.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

/// The caller named the worker that fails.
async fn a_failure_that_no_other_worker_may_mend(world: &World) {
    faults(world, Engine::First, Faults { refuse_status: Some(500), ..Faults::default() }).await;
    let pin = world.worker_id(Engine::First);
    let url = world.fleet.data("/v1/completions");
    let named = [("x-kvroute-worker", pin.as_str())];
    let answer = world.fleet.client.post_with(&url, &named, &body(KV, &prompt(19, 64), false)).await;
    assert_eq!(answer.status, 500, "{}", answer.text());
    faults(world, Engine::First, Faults::default()).await;
}

async fn promises_that_are_broken_and_exceeded(world: &World) {
    let known = prompt(20, 200);
    world.complete_at(KV, &known, true, Some(Engine::First)).await;
    world.at_rest().await;
    // The other engine has nothing of it.
    world.complete_at(KV, &known, true, Some(Engine::Second)).await;
    world.engine(Engine::First).cause(Incident::Wipe).await;
    world.complete_at(KV, &known, true, Some(Engine::First)).await;
    world.at_rest().await;

    let unseen = prompt(21, 200);
    faults(world, Engine::First, Faults { silent: true, ..Faults::default() }).await;
    world.complete_unseen(Engine::First, KV, &unseen).await;
    faults(world, Engine::First, Faults::default()).await;
    world.complete_at(KV, &unseen, false, Some(Engine::First)).await;
    world.at_rest().await;
}

/// A gap that a replay fills, one that none fills, a block whose parent was forgotten by that, and another process.
async fn lost_events(world: &World) {
    let lossy = Faults { lose_events_percent: 50, ..Faults::default() };
    faults(world, Engine::Second, lossy.clone()).await;
    until_gap(world, 100).await;
    faults(world, Engine::Second, Faults { no_replay: true, ..lossy }).await;
    until_gap(world, 200).await;
    until_moved(world, rows::MISSED_BATCHES, &[]).await;
    faults(world, Engine::Second, Faults::default()).await;
    world.complete_at(KV, &prompt(100, 256), false, Some(Engine::Second)).await;
    until_moved(world, rows::BLOCKS_REJECTED, &[("reason", "orphaned")]).await;
    world.engine(Engine::Second).cause(Incident::Restart).await;
    world.complete_at(KV, &prompt(300, 64), false, Some(Engine::Second)).await;
    until_moved(world, rows::INDEX_RESTARTS, &[]).await;
}

/// Sends ever new prompts to the second engine until one more gap in its events is seen.
async fn until_gap(world: &World, first: u32) {
    let before = world.sum(rows::INDEX_GAPS, &[]).await;
    for number in first..first + TRIES {
        world.complete_at(KV, &prompt(number, 64), false, Some(Engine::Second)).await;
        world.at_rest().await;
        if world.sum(rows::INDEX_GAPS, &[]).await > before {
            return;
        }
    }
    panic!("of {TRIES} events about half are lost, and no gap is seen");
}

pub(crate) async fn until_moved(world: &World, row: &Row, labels: &[(&str, &str)]) {
    let name = row.exposed_name(world.prefix());
    let has_moved = |text: &str| Exposition::parse(text).sum(&name, labels) > Some(0.0);
    world.fleet.client.until(&world.fleet.admin("/metrics"), |answer| has_moved(&answer.text())).await;
}

/// Two prompts of so many blocks that the index cannot hold both.
async fn more_than_the_index_may_know(world: &World) {
    for number in 1..=2 {
        world.complete_unseen(Engine::Large, LARGE, &prompt(number, 120_000)).await;
    }
    until_moved(world, rows::BUDGET_EVICTIONS, &[]).await;
}

/// Prompts that do not fit beside each other into a cache that is only remembered, and answers that grow.
async fn small_caches(world: &World) {
    for number in 30..40 {
        let mut growing = body(MUTE, &prompt(number, 320), true);
        growing["max_tokens"] = json!(40);
        let answer = world.fleet.client.post(&world.fleet.data("/v1/completions"), &growing).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    world.at_rest().await;
}

/// One request hangs, one waits behind it and one is turned away.
async fn waiting(world: &World, database: &Database) {
    faults(world, Engine::Busy, Faults { hang: true, ..Faults::default() }).await;
    let ask = |number: u32| {
        let (client, url) = (world.fleet.client.clone(), world.fleet.data("/v1/completions"));
        tokio::spawn(async move { client.post(&url, &body(BUSY, &prompt(number, 160), true)).await })
    };
    let hanging = ask(1);
    database.until(&sum_of(world, rows::ACTIVE_PREFILL_TOKENS, ""), |value| value > 0.0).await;
    let waiting = ask(2);
    database.until(&sum_of(world, rows::QUEUE_PENDING, "{model=\"busy\"}"), |value| value == 1.0).await;
    database.until(&sum_of(world, rows::STAGE_REQUESTS, "{stage=\"dispatch\"}"), |value| value == 1.0).await;
    assert_eq!(ask(3).await.unwrap().status, 429);
    faults(world, Engine::Busy, Faults::default()).await;
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
    assert_eq!(waiting.await.unwrap().status, 200);
}

/// An answer that its client does not wait for; while it lasts the engine says that it computes something.
async fn endless_answers(world: &World, database: &Database) {
    let mut endless = body(UNCOUNTED, &prompt(1, 64), true);
    endless["max_tokens"] = json!(1_900);
    let answer = world.fleet.client.open(&world.fleet.data("/v1/completions"), &endless).await;
    database.until(&sum_of(world, rows::WORKER_ENGINE_REQUESTS, ""), |value| value > 0.0).await;
    drop(answer);
}

/// An answer that breaks off, which nothing can mend, and one that never began, which another engine gives.
/// A stream that breaks behind its first token, until one went on with the other engine.
async fn streams_that_go_on(world: &World) {
    let once = Faults { break_after_chunks: Some(1), broken_answers: Some(1), ..Faults::default() };
    for number in 400..400 + TRIES {
        faults(world, Engine::First, once.clone()).await;
        world.complete(KV, &prompt(number, 64), true).await;
        if world.sum(rows::MIGRATIONS, &[]).await > 0.0 {
            break;
        }
    }
    faults(world, Engine::First, Faults::default()).await;
    until_moved(world, rows::MIGRATIONS, &[]).await;
}

/// One that cannot be, and one whose decode engine fails. And a text, for the tokenizer.
async fn prompts_that_are_not_handed_over(world: &World) {
    let (client, url) = (&world.fleet.client, world.fleet.data("/v1/completions"));
    let mut twice = body(SPLIT, &prompt(500, 64), false);
    twice["n"] = json!(2);
    assert_eq!(client.post(&url, &twice).await.status, 200);
    until_moved(world, rows::PREFILL_FALLBACKS, &[("reason", "unsupported")]).await;

    faults(world, Engine::Decode, Faults { fail_decode: true, ..Faults::default() }).await;
    client.post(&url, &body(SPLIT, &prompt(501, 64), false)).await;
    until_moved(world, rows::STRANDED_PREFILL, &[]).await;
    faults(world, Engine::Decode, Faults::default()).await;

    let text = json!({"model": KV, "prompt": "once upon a time", "max_tokens": 2});
    assert_eq!(client.post(&url, &text).await.status, 200);
    until_moved(world, rows::TOKENIZER_CACHE, &[]).await;
}

async fn broken_connections(world: &World) {
    faults(world, Engine::Uncounted, Faults { break_after_chunks: Some(1), ..Faults::default() }).await;
    let (client, url) = (&world.fleet.client, world.fleet.data("/v1/completions"));
    let broken = client.post(&url, &body(UNCOUNTED, &prompt(2, 64), true)).await;
    assert!(broken.text().contains("error"), "{}", broken.text());

    faults(world, Engine::First, Faults { hang: true, ..Faults::default() }).await;
    let asked = until_one_hangs(world, &url).await;
    world.engine(Engine::First).cause(Incident::Restart).await;
    faults(world, Engine::First, Faults::default()).await;
    for answer in asked {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// Sends ever new prompts until the first engine has one.
async fn until_one_hangs(world: &World, url: &str) -> Vec<JoinHandle<Answer>> {
    let first = world.worker_id(Engine::First);
    let mut asked = Vec::new();
    for number in 500..500 + TRIES {
        let (client, url) = (world.fleet.client.clone(), url.to_owned());
        asked.push(tokio::spawn(
            async move { client.post(&url, &body(KV, &prompt(number, 160), true)).await },
        ));
        tokio::task::yield_now().await;
        if world.sum(rows::ACTIVE_PREFILL_TOKENS, &[("worker_id", first.as_str())]).await > 0.0 {
            return asked;
        }
    }
    panic!("of {TRIES} prompts none went to the first engine");
}

/// Its requests go to the other one.
async fn a_worker_that_dies(mut world: World) -> World {
    let mortal = world.fleet.engines.pop().unwrap();
    mortal.stop().await;
    for number in 1..=4 {
        world.complete(MUTE, &prompt(number, 48), false).await;
    }
    world
}

async fn faults(world: &World, engine: Engine, faults: Faults) {
    world.engine(engine).set_faults(faults).await.unwrap();
}

/// The sum of a family, as a query.
fn sum_of(world: &World, row: &Row, labels: &str) -> String {
    format!("sum({}{labels})", row.exposed_name(world.prefix()))
}
