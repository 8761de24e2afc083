//! After any mix of completed, failed and cancelled requests every load gauge reads exactly 0, and every attempt
//! has exactly one outcome.

use std::time::Duration;

use http_body_util::BodyExt;
use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{Fleet, Ledger};
use serde_json::json;

const ATTEMPTS: usize = 60;

#[tokio::test]
async fn every_load_gauge_reads_zero_after_any_mix_of_endings() {
    let slow = SimConfig { prefill_tps: 4_000, decode_tps: 200, ..SimConfig::default() };
    let breaking =
        SimConfig { faults: Faults { break_after_chunks: Some(3), ..Faults::default() }, ..slow.clone() };
    let fleet = Fleet::start(vec![slow.clone(), slow, breaking], "kv").await;
    let url = fleet.data("/v1/chat/completions");
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..ATTEMPTS {
        let (client, url) = (fleet.client.clone(), url.clone());
        requests.spawn(async move {
            let text = format!("question {} of many, {}", number % 7, "with words ".repeat(number));
            let body = json!({
                "model": "sim", "messages": [{"role": "user", "content": text}],
                "max_tokens": 30, "n": 1 + number % 2, "stream": number % 3 != 0,
            });
            match number % 4 {
                0 => {
                    let patience = Duration::from_millis(5 * number as u64 % 60);
                    let _ = tokio::time::timeout(patience, client.post(&url, &body)).await;
                }
                1 => {
                    let mut half_read = client.open(&url, &body).await.into_body();
                    let _ = half_read.frame().await;
                }
                _ => {
                    client.post(&url, &body).await;
                }
            }
        });
    }
    requests.join_all().await;

    let scrape = fleet.at_rest().await;
    Ledger::of(&scrape).assert_closes();
    for outcome in ["completed", "failed", "cancelled"] {
        assert!(scrape.count("kvroute_attempts_total", &[("outcome", outcome)]) > 0, "no attempt {outcome}");
    }
    for engine in &fleet.engines {
        let stats = format!("{}/stats", engine.url());
        fleet
            .client
            .until(&stats, |answer| answer.json()["running"] == 0 && answer.json()["waiting"] == 0)
            .await;
    }
    fleet.stop().await;
}
