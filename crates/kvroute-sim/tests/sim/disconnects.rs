//! A client that goes away takes its work with it, whatever the phase, and leaves its blocks cached.

use http_body_util::BodyExt;
use kvroute_sim::SimConfig;
use serde_json::{Value, json};

use crate::http::{COMPLETIONS, cached_tokens, complete, open, start, until_stats};

fn endless(prompt: &[u32], stream: bool) -> Value {
    json!({"prompt": prompt, "max_tokens": 20_000, "ignore_eos": true, "stream": stream})
}

fn slow() -> SimConfig {
    SimConfig { decode_tps: 50, kv_blocks: 4096, ..SimConfig::default() }
}

#[tokio::test]
async fn in_the_middle_of_a_stream() {
    let engine = start(slow()).await;
    let prompt: Vec<u32> = (0..40).collect();
    let mut response = open(&engine, COMPLETIONS, &endless(&prompt, true)).await;
    response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(engine.stats().running, 1);
    drop(response);
    until_stats(&engine, "nothing runs", |stats| stats.running == 0 && stats.kv_blocks_held == 0).await;
    assert!(engine.stats().generated_tokens < 10_000);
    assert_eq!(engine.stats().finished_sequences, 0);
    assert_eq!(cached_tokens(&complete(&engine, &prompt, 1).await), 32);
    engine.stop().await;
}

#[tokio::test]
async fn while_a_whole_answer_is_awaited() {
    let engine = start(slow()).await;
    {
        let body = endless(&[1, 2, 3], false);
        let request = std::pin::pin!(open(&engine, COMPLETIONS, &body));
        let running = std::pin::pin!(until_stats(&engine, "the request runs", |stats| stats.running == 1));
        tokio::select! {
            _ = request => panic!("the answer cannot be complete"),
            () = running => {}
        }
    }
    until_stats(&engine, "nothing runs", |stats| stats.running == 0 && stats.kv_blocks_held == 0).await;
    engine.stop().await;
}

#[tokio::test]
async fn while_the_prompt_is_queued_or_computed() {
    let engine = start(SimConfig { prefill_tps: 10, ..slow() }).await;
    let prompts: Vec<Vec<u32>> = vec![(0..1000).collect(), (2000..3000).collect()];
    let mut responses = Vec::new();
    for prompt in &prompts {
        responses.push(open(&engine, COMPLETIONS, &endless(prompt, true)).await);
    }
    until_stats(&engine, "one is computed, one waits", |stats| (stats.running, stats.waiting) == (1, 1))
        .await;
    responses.remove(1);
    until_stats(&engine, "none waits", |stats| (stats.running, stats.waiting) == (1, 0)).await;
    drop(responses);
    until_stats(&engine, "nothing runs", |stats| stats.running == 0 && stats.kv_blocks_held == 0).await;
    let stats = engine.stats();
    assert_eq!((stats.requests, stats.prompt_tokens, stats.kv_blocks_used), (2, 0, 0));
    engine.stop().await;
}
