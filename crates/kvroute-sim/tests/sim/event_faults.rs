//! Faults of the event stream and of the cache: what is lost, what is not told, and what stays true.

use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use kvroute_sim::{Faults, Incident, SimConfig, SimEngine};
use kvroute_zmtp::{Dealer, Message, Subscriber};
use serde_json::json;

use crate::events::{kinds, replay, sources};
use crate::http::{COMPLETIONS, cached_tokens, complete, get, open, post, start, until_stats};

/// How long something is waited for that must not come, or that is asked for again.
const PATIENCE: Duration = Duration::from_millis(100);

/// An engine with a subscriber that hears everything, and a way to its replay.
struct Heard {
    engine: SimEngine,
    subscriber: Subscriber,
    dealer: Dealer,
    next_prompt: u32,
}

impl Heard {
    async fn start(config: SimConfig) -> Self {
        let engine = start(config).await;
        let sources = sources(&engine).await;
        let subscriber = Subscriber::connect(&sources.events, b"").await.unwrap();
        let dealer = Dealer::connect(&sources.replay).await.unwrap();
        let mut heard = Self { engine, subscriber, dealer, next_prompt: 0 };
        // The subscription takes effect at some point.
        loop {
            heard.store().await;
            let last = u64::from(heard.next_prompt) - 1;
            if tokio::time::timeout(PATIENCE, heard.live_until(last)).await.is_ok() {
                return heard;
            }
        }
    }

    /// One request with a prompt that nobody has sent before: one event message.
    async fn store(&mut self) {
        let first = self.next_prompt * 40;
        self.next_prompt += 1;
        complete(&self.engine, &(first..first + 40).collect::<Vec<_>>(), 1).await;
    }

    /// The numbers that arrive up to this one, which is the last that was sent: nothing overtakes anything.
    async fn live_until(&mut self, last: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        while numbers.last() != Some(&last) {
            let message = self.subscriber.receive().await.unwrap();
            numbers.push(u64::from_be_bytes(message[1][..].try_into().unwrap()));
        }
        numbers
    }

    async fn replayed(&mut self, first: u64) -> Vec<(u64, Bytes)> {
        replay(&mut self.dealer, first).await
    }

    async fn switch(&self, faults: Faults) {
        self.engine.set_faults(faults).await.unwrap();
    }

    /// Ended and open times in which the events did not tell the truth.
    fn unseen(&self) -> (usize, usize) {
        let periods = self.engine.unseen();
        let open = periods.iter().filter(|period| period.until.is_none()).count();
        (periods.len() - open, open)
    }
}

fn losing(lose_events_percent: u8) -> Faults {
    Faults { lose_events_percent, ..Faults::default() }
}

#[tokio::test]
async fn lost_messages_have_their_numbers_and_are_replayed() {
    let mut heard = Heard::start(SimConfig::default()).await;
    let next = u64::from(heard.next_prompt);
    let (ended, _) = heard.unseen();
    heard.switch(losing(100)).await;
    heard.store().await;
    heard.store().await;
    assert_eq!(heard.unseen(), (ended, 1));
    heard.switch(Faults::default()).await;
    heard.store().await;
    assert_eq!(heard.live_until(next + 2).await, [next + 2]);
    assert_eq!(heard.unseen(), (ended + 1, 0));
    let replayed = heard.replayed(next).await;
    assert_eq!(replayed.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [next, next + 1, next + 2]);
    heard.engine.stop().await;
}

#[tokio::test]
async fn a_share_of_the_messages_is_lost() {
    let mut heard = Heard::start(SimConfig::default()).await;
    let first = u64::from(heard.next_prompt);
    heard.switch(losing(50)).await;
    for _ in 0..80 {
        heard.store().await;
    }
    heard.switch(Faults::default()).await;
    heard.store().await;
    let arrived = heard.live_until(first + 80).await.len() - 1;
    assert!((20..=60).contains(&arrived), "{arrived} of 80 arrived");
    assert_eq!(heard.replayed(first).await.len(), 81);
    heard.engine.stop().await;
}

#[tokio::test]
async fn replay_is_not_answered_while_it_is_switched_off() {
    let mut heard = Heard::start(SimConfig::default()).await;
    heard.switch(Faults { no_replay: true, ..Faults::default() }).await;
    let request: Message = vec![Bytes::new(), Bytes::copy_from_slice(&0u64.to_be_bytes())];
    heard.dealer.send(&request).await.unwrap();
    assert!(tokio::time::timeout(PATIENCE, heard.dealer.receive()).await.is_err());
    heard.switch(Faults::default()).await;
    let stored = heard.next_prompt as usize;
    assert_eq!(heard.replayed(0).await.len(), stored, "only the later request is answered");
    heard.engine.stop().await;
}

#[tokio::test]
async fn a_silent_publisher_leaves_no_trace_in_its_numbers() {
    let mut heard = Heard::start(SimConfig::default()).await;
    let next = u64::from(heard.next_prompt);
    heard.switch(Faults { silent: true, ..Faults::default() }).await;
    heard.store().await;
    heard.switch(Faults::default()).await;
    heard.store().await;
    assert_eq!(heard.live_until(next).await, [next]);
    assert_eq!(heard.replayed(next).await.len(), 1);
    assert_eq!(heard.unseen().1, 1, "no message mends it");
    heard.engine.cause(Incident::Reset).await;
    assert_eq!(heard.unseen().1, 0);
    heard.engine.stop().await;
}

#[tokio::test]
async fn an_emptied_cache_is_announced_at_once_late_or_never() {
    let prompt: Vec<u32> = (100_000..100_040).collect();
    for (incident, at_once, with_next_step) in [
        (Incident::Reset, 1, ["BlockStored"].as_slice()),
        (Incident::LateReset, 0, &["AllBlocksCleared", "BlockStored"]),
        (Incident::Wipe, 0, &["BlockStored"]),
    ] {
        let mut heard = Heard::start(SimConfig::default()).await;
        complete(&heard.engine, &prompt, 1).await;
        let next = u64::from(heard.next_prompt) + 1;
        let answer = post(&heard.engine, "/faults", &json!({ "once": incident })).await;
        assert_eq!((answer.status, answer.json().get("once")), (StatusCode::OK, None));
        assert_eq!(heard.engine.stats().kv_blocks_used, 0);
        let told = heard.replayed(next).await;
        assert_eq!(
            told.iter().map(|(_, payload)| kinds(payload)).collect::<Vec<_>>(),
            vec![["AllBlocksCleared"]; at_once]
        );
        assert_eq!(heard.unseen().1, 1 - at_once, "{incident:?}");
        assert_eq!(cached_tokens(&complete(&heard.engine, &prompt, 1).await), 0);
        let told = heard.replayed(next + at_once as u64).await;
        assert_eq!(kinds(&told[0].1), with_next_step);
        assert_eq!(heard.unseen().1, usize::from(incident == Incident::Wipe), "{incident:?}");
        heard.engine.stop().await;
    }
}

#[tokio::test]
async fn an_emptied_cache_makes_running_sequences_begin_again_and_counts_them_once() {
    for incident in [Incident::Reset, Incident::LateReset, Incident::Wipe] {
        let engine = start(SimConfig { decode_tps: 500, ..SimConfig::default() }).await;
        let body = json!({"prompt": (0..40).collect::<Vec<u32>>(), "max_tokens": 60, "stream": true});
        let running = open(&engine, COMPLETIONS, &body).await;
        until_stats(&engine, "it runs", |stats| stats.kv_blocks_held > 0).await;
        engine.cause(incident).await;
        let answer = crate::http::finish(running).await;
        assert_eq!(answer.events().last().unwrap(), "[DONE]");
        let stats = engine.stats();
        assert_eq!((stats.prompt_tokens, stats.computed_tokens, stats.preemptions), (40, 40, 1));
        assert_eq!((stats.generated_tokens, stats.finished_sequences), (60, 1));
        engine.stop().await;
    }
}

#[tokio::test]
async fn an_engine_that_announces_its_start_clears_with_number_0() {
    let engine = start(SimConfig { announces_start: true, ..SimConfig::default() }).await;
    let mut dealer = Dealer::connect(&sources(&engine).await.replay).await.unwrap();
    let told = replay(&mut dealer, 0).await;
    assert_eq!((told.len(), told[0].0, kinds(&told[0].1)), (1, 0, vec!["AllBlocksCleared".to_owned()]));
    engine.stop().await;
}

#[tokio::test]
async fn switches_that_make_no_sense_are_refused_by_name() {
    let engine = start(SimConfig::default()).await;
    for (body, named) in [
        (json!({"lose_events_percent": 101}), "lose_events_percent is 101"),
        (json!({"once": "melt"}), "melt"),
    ] {
        let answer = post(&engine, "/faults", &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        let message = answer.json()["error"]["message"].to_string();
        assert!(message.contains(named), "{message}");
    }
    assert_eq!(get(&engine, "/faults").await.json()["lose_events_percent"], 0);
    engine.stop().await;
}
