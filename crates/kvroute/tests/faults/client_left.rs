//! Clients that leave, in order or without: the engine gives up their work, which it would never have finished otherwise.

use kvroute_sim::{EngineStats, SimConfig};
use kvroute_testkit::{Fleet, Ledger};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::site::{CHAT, COMPLETIONS};

/// Minutes of work for an engine that computes or generates a token a second: far more than a test may take.
const WORDS: usize = 1_000;
const TOKENS: u64 = 1_000;

/// The two ways in which a client's connection ends.
const WAYS: [fn(TcpStream); 2] = [drop, reset];

fn reset(client: TcpStream) {
    client.set_zero_linger().unwrap();
    drop(client);
}

/// A client that writes its request by hand.
async fn client(fleet: &Fleet, path: &str, stream: bool) -> TcpStream {
    let text = "word ".repeat(WORDS);
    let mut body = json!({"model": "sim", "max_tokens": TOKENS, "ignore_eos": true, "stream": stream});
    match path {
        CHAT => body["messages"] = json!([{"role": "user", "content": text}]),
        _ => body["prompt"] = text.into(),
    }
    let body = body.to_string();
    let length = body.len();
    let mut client = TcpStream::connect(fleet.server.data_address()).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: router\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    client.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    client
}

/// Waits until what the engine does satisfies a condition.
async fn until(fleet: &Fleet, holds: impl Fn(&EngineStats) -> bool) {
    let url = format!("{}/stats", fleet.engines[0].url());
    fleet.client.until(&url, |_| holds(&fleet.engines[0].stats())).await;
}

/// Of each way to ask and each way to leave a client is there until the moment has come, and then it is not. An engine that
/// gave nothing up would be busy for a quarter of an hour.
async fn leave(engine: SimConfig, is_time: impl Fn(&EngineStats) -> bool, reads: bool) {
    let fleet = Fleet::start(vec![engine], "kv").await;
    let mut left = 0;
    for (path, stream) in [(COMPLETIONS, false), (COMPLETIONS, true), (CHAT, false), (CHAT, true)] {
        if reads && !stream {
            continue;
        }
        for leaves in WAYS {
            let mut client = client(&fleet, path, stream).await;
            until(&fleet, |stats| stats.running == 1 && is_time(stats)).await;
            if reads {
                client.read_exact(&mut [0; 64]).await.unwrap();
            }
            leaves(client);
            left += 1;
            until(&fleet, |stats| stats.running + stats.waiting == 0).await;
        }
    }
    let scrape = fleet.at_rest().await;
    Ledger::of(&scrape).assert_closes();
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "cancelled")]), left);
    assert_eq!(scrape.count("kvroute_requests_total", &[]), left);
    assert_eq!(fleet.engines[0].stats().finished_sequences, 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_its_prompt_is_computed() {
    leave(SimConfig { prefill_tps: 1, ..SimConfig::default() }, |_| true, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_its_answer_is_generated() {
    leave(SimConfig { decode_tps: 1, ..SimConfig::default() }, |stats| stats.kv_blocks_held > 0, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_the_middle_of_its_stream() {
    leave(SimConfig { decode_tps: 1, ..SimConfig::default() }, |stats| stats.kv_blocks_held > 0, true).await;
}
