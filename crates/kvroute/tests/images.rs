//! Chats with images: every stage of the funnel keeps prompts apart that only their images tell apart, and where no worker
//! tells which image is which, such chats are served by load and counted as what they are.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use kvroute_core::BlockSize;
use kvroute_sim::{Faults, SimConfig, SimEngine};
use kvroute_testkit::{Answer, CapturedLog, Exposition, Fleet, server_config};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const BLOCK: u64 = 16;
/// Some blocks and a part of one, so that images begin and end inside of blocks.
const IMAGE_TOKENS: u32 = 40;

/// The stages of one chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stages {
    input: u64,
    history: u64,
    best: u64,
    selected: u64,
    reported: u64,
}

fn seeing() -> SimConfig {
    SimConfig {
        image_tokens: IMAGE_TOKENS,
        scale_out: true,
        block_size: BlockSize::new(BLOCK as u32).unwrap(),
        ..SimConfig::default()
    }
}

async fn fleet(engines: Vec<SimConfig>) -> Fleet {
    Fleet::start_with(engines, |urls| {
        let mut config = server_config(urls, "kv");
        let pool = &mut config.router.pools[0];
        pool.history.enabled = true;
        pool.history.bytes = 4 << 20;
        config
    })
    .await
}

/// A question about an image, behind and in front of some blocks of text.
fn chat(image: &str) -> Value {
    let image = json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{image}")}});
    let text = |text: &str| json!({"type": "text", "text": text.repeat(8)});
    let parts = [text("Look at this one with care. "), image, text("What do you see there, and what not? ")];
    json!({"model": "sim", "messages": [{"role": "user", "content": parts}], "max_tokens": 4})
}

async fn ask(fleet: &Fleet, body: &Value) -> Answer {
    let answer = fleet.client.post(&fleet.data(CHAT), body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

fn history(scrape: &Exposition) -> u64 {
    scrape.count("kvroute_router_history_cached_tokens_total", &[])
}

fn uncounted(scrape: &Exposition, reason: &str) -> u64 {
    scrape.sum("kvroute_uncounted_attempts_total", &[("reason", reason)]).unwrap_or_default() as u64
}

/// Waits until the router knows of every block that the engines told of.
async fn all_known(fleet: &Fleet) {
    let held = |engine: &SimEngine| engine.stats().kv_contents_cached;
    let is_known = |answer: &Answer| {
        let known = answer.json();
        let ranks =
            known.as_array().unwrap().iter().map(|worker| worker["ranks"][0]["blocks"].as_u64().unwrap());
        ranks.sum::<u64>() == fleet.engines.iter().map(held).sum::<u64>()
    };
    fleet.client.until(&fleet.admin("/api/workers"), is_known).await;
}

/// Sends a chat while nothing else is sent, and looks at its stages; the next one finds what it left.
async fn stages(fleet: &Fleet, body: &Value) -> Stages {
    let seen = stages_at_once(fleet, body).await;
    all_known(fleet).await;
    seen
}

async fn stages_at_once(fleet: &Fleet, body: &Value) -> Stages {
    let before = history(&fleet.at_rest().await);
    let usage = ask(fleet, body).await.json()["usage"].clone();
    let history = history(&fleet.at_rest().await) - before;
    let decision = fleet.client.get(&fleet.admin("/api/decisions")).await.json()[0].clone();
    let tokens = |field: &str| decision[field].as_u64().unwrap();
    assert_eq!(
        usage["prompt_tokens"], decision["input_tokens"],
        "what is routed on is what the engine computes"
    );
    Stages {
        input: tokens("input_tokens"),
        history,
        best: tokens("best_eligible_cached_tokens"),
        selected: tokens("selected_cached_tokens"),
        reported: usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap(),
    }
}

/// Tokens of whole blocks in front of the image, from what the engine itself says.
async fn before_image(fleet: &Fleet) -> u64 {
    let rendered =
        fleet.client.post(&format!("{}{CHAT}/render", fleet.engines[0].url()), &chat("cat")).await.json();
    rendered["features"]["mm_placeholders"]["image"][0]["offset"].as_u64().unwrap() / BLOCK * BLOCK
}

#[tokio::test]
async fn an_equal_image_is_found_again_and_another_one_only_up_to_its_place() {
    let fleet = fleet(vec![seeing(), seeing()]).await;
    let before = before_image(&fleet).await;
    let first = stages(&fleet, &chat("cat")).await;
    let whole = first.input / BLOCK * BLOCK;
    let reusable = (first.input - 1) / BLOCK * BLOCK;
    assert!(before >= BLOCK && whole > before + u64::from(IMAGE_TOKENS), "{before} of {first:?}");
    assert_eq!(first, Stages { history: 0, best: 0, selected: 0, reported: 0, ..first });
    let again = stages(&fleet, &chat("cat")).await;
    assert_eq!(again, Stages { history: whole, best: whole, selected: whole, reported: reusable, ..first });
    let other = stages(&fleet, &chat("dog")).await;
    assert_eq!(other, Stages { history: before, best: before, selected: before, reported: before, ..first });
    let third = stages(&fleet, &chat("cat")).await;
    assert_eq!(third, Stages { history: whole, best: whole, selected: whole, reported: reusable, ..first });
    let scrape = fleet.at_rest().await;
    assert_eq!(uncounted(&scrape, "multimodal"), 0);
    assert_eq!(
        scrape.sum("kvroute_router_reuse_lost_tokens_total", &[("reason", "unexplained")]).unwrap_or(0.0),
        0.0
    );
    let stats = SimEngine::stats;
    let reused: u64 = fleet.engines.iter().map(|engine| stats(engine).reused_tokens).sum();
    assert_eq!(reused, again.reported + other.reported + third.reported, "the engines' own count");
    fleet.stop().await;
}

/// Two images of the same size, in the other order: equal tokens throughout.
#[tokio::test]
async fn the_order_of_images_matters() {
    let fleet = fleet(vec![seeing()]).await;
    let of = |images: [&str; 2]| {
        let parts =
            images.map(|image| json!({"type": "image_url", "image_url": {"url": format!("data:,{image}")}}));
        let parts =
            [&parts[..], &[json!({"type": "text", "text": "Which one do you like more? ".repeat(6)})]]
                .concat();
        json!({"model": "sim", "messages": [{"role": "user", "content": parts}], "max_tokens": 1})
    };
    let first = stages(&fleet, &of(["cat", "dog"])).await;
    let swapped = stages(&fleet, &of(["dog", "cat"])).await;
    assert_eq!(swapped.input, first.input);
    assert!(swapped.best < BLOCK * 2 && swapped.best == swapped.reported, "{swapped:?}");
    let again = stages(&fleet, &of(["cat", "dog"])).await;
    assert!(again.best > swapped.best && again.reported == (first.input - 1) / BLOCK * BLOCK, "{again:?}");
    fleet.stop().await;
}

/// The next turn repeats the image and the answer: blocks that the answer completed are predicted, too.
#[tokio::test]
async fn a_conversation_goes_on_behind_its_image() {
    let fleet = fleet(vec![seeing()]).await;
    let mut body = chat("cat");
    body["max_tokens"] = json!(40);
    let first = ask(&fleet, &body).await.json();
    fleet.at_rest().await;
    all_known(&fleet).await;
    let said = first["choices"][0]["message"]["content"].clone();
    let input = first["usage"]["prompt_tokens"].as_u64().unwrap();
    body["messages"].as_array_mut().unwrap().extend([
        json!({"role": "assistant", "content": said}),
        json!({"role": "user", "content": "Say that again, please."}),
    ]);
    let next = stages(&fleet, &body).await;
    assert!(next.best > input && next.best == next.reported, "{next:?} behind {input}");
    assert_eq!(next.history, next.best, "what was generated was learned");
    fleet.stop().await;
}

#[tokio::test]
async fn a_pool_without_events_remembers_images_too() {
    let silent = SimConfig { kv_events: kvroute_sim::EventEndpoint::None, ..seeing() };
    let fleet = fleet(vec![silent]).await;
    let before = before_image(&fleet).await;
    stages_at_once(&fleet, &chat("cat")).await;
    let other = stages_at_once(&fleet, &chat("dog")).await;
    assert_eq!((other.best, other.reported), (before, before));
    let again = stages_at_once(&fleet, &chat("cat")).await;
    assert!(again.best > before + u64::from(IMAGE_TOKENS) && again.reported <= again.best, "{again:?}");
    fleet.stop().await;
}

#[tokio::test]
async fn chats_with_images_are_uncounted_where_no_worker_tells_and_the_remedy_is_said() {
    let log = CapturedLog::start();
    let fleet = fleet(vec![SimConfig { scale_out: false, ..seeing() }]).await;
    ask(&fleet, &chat("cat")).await;
    ask(&fleet, &chat("cat")).await;
    let scrape = fleet.at_rest().await;
    assert_eq!(uncounted(&scrape, "multimodal"), 2);
    assert_eq!(scrape.sum("kvroute_router_ledger_input_tokens_total", &[]).unwrap_or(0.0), 0.0);
    let said = log.entries(|entry| entry.message == "prompt cannot be counted");
    assert!(said.iter().any(|entry| entry.field("error").contains("--enable-scale-out")), "{said:?}");
    fleet.stop().await;
}

/// One worker's failure is the matter of the requests that asked it.
#[tokio::test]
async fn a_question_that_fails_costs_its_own_request_only() {
    let failing = Faults { fail_render: true, ..Faults::default() };
    let fleet = fleet(vec![seeing()]).await;
    let faults = format!("{}/faults", fleet.engines[0].url());
    fleet.client.post(&faults, &serde_json::to_value(&failing).unwrap()).await;
    ask(&fleet, &chat("cat")).await;
    assert_eq!(uncounted(&fleet.at_rest().await, "multimodal"), 1);
    all_known(&fleet).await;
    fleet.client.post(&faults, &json!({})).await;
    let next = stages(&fleet, &chat("cat")).await;
    assert!(
        next.best > 0 && next.best - next.reported <= BLOCK,
        "the engine's events told of the first: {next:?}"
    );
    assert_eq!(uncounted(&fleet.at_rest().await, "multimodal"), 1);
    fleet.stop().await;
}

/// What was asked once is not asked again: the engine that does not tell any more does not matter.
#[tokio::test]
async fn an_answer_is_kept_by_what_was_asked() {
    let fleet = fleet(vec![seeing()]).await;
    stages(&fleet, &chat("cat")).await;
    let failing = Faults { fail_render: true, ..Faults::default() };
    let faults = format!("{}/faults", fleet.engines[0].url());
    fleet.client.post(&faults, &serde_json::to_value(&failing).unwrap()).await;
    let again = stages(&fleet, &chat("cat")).await;
    assert!(again.best > again.input / 2, "{again:?}");
    ask(&fleet, &chat("dog")).await;
    assert_eq!(uncounted(&fleet.at_rest().await, "multimodal"), 1, "another image is another question");
    fleet.stop().await;
}
