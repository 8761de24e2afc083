//! Requests do not notice what becomes of the sharing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kvroute_testkit::{Answer, Fleet};
use tokio::task::JoinSet;

use super::asking::{BLOCK, COMPLETIONS, body, prompt, send};
use super::replicas::{dropped, is, sharing_routers, stop, until};
use super::server::{self, Server};

/// Requests in flight at a time.
const SENDERS: usize = 4;

/// Prompts that nobody has sent before.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// Requests one after the other from several senders, each of which must succeed.
struct Load {
    completed: Arc<AtomicU64>,
    senders: JoinSet<()>,
}

/// A prompt of this process's own.
fn new_prompt() -> Vec<u32> {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let unique = [300 + number % 1_500, 300 + number / 1_500 % 1_500];
    [&unique[..], &prompt(number % 97, 3 * BLOCK)].concat()
}

// === impl Load ===

impl Load {
    fn on(router: &Fleet) -> Self {
        let (completed, mut senders) = (Arc::<AtomicU64>::default(), JoinSet::new());
        for _ in 0..SENDERS {
            let (client, url, completed) =
                (router.client.clone(), router.data(COMPLETIONS), Arc::clone(&completed));
            senders.spawn(async move {
                loop {
                    let answer: Answer = client.post(&url, &body(&new_prompt())).await;
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    completed.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self { completed, senders }
    }

    /// Waits until so many more requests are complete; a sender whose request failed fails the test.
    async fn more(&mut self, requests: u64) {
        let goal = self.completed.load(Ordering::Relaxed) + requests;
        while self.completed.load(Ordering::Relaxed) < goal {
            if let Some(failed) = self.senders.try_join_next() {
                failed.unwrap();
            }
            tokio::time::sleep(server::BETWEEN_LOOKS).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_go_on_while_the_server_is_gone_and_are_shared_when_it_is_back() {
    if !server::is_there() {
        return;
    }
    let mut nats = Server::start().await;
    let routers = sharing_routers(&nats, 2).await;
    let [a, b] = &routers[..] else { panic!("two routers") };
    let mut load = Load::on(a);
    load.more(50).await;
    assert_eq!(dropped(&a.scrape().await), 0.0);

    nats.kill();
    load.more(100).await;
    let gone = until(a, |scrape| is(scrape, "degraded") && dropped(scrape) > 0.0).await;
    load.more(50).await;
    assert!(dropped(&a.scrape().await) > dropped(&gone), "what cannot be told is counted");

    nats.restart().await;
    until(a, |scrape| is(scrape, "on")).await;
    until(b, |scrape| is(scrape, "on")).await;
    load.more(50).await;
    load.senders.shutdown().await;
    a.at_rest().await;
    shared_again(a, b).await;
    stop(routers).await;
}

/// Completes something new at one router until the other one counts some of it as computed before.
async fn shared_again(teller: &Fleet, listener: &Fleet) {
    for _ in 0..server::LOOKS {
        let prompt = new_prompt();
        send(teller, &body(&prompt)).await;
        teller.at_rest().await;
        let before = f1(listener).await;
        send(listener, &body(&prompt)).await;
        if f1(listener).await > before {
            return;
        }
    }
    panic!("nothing is shared after the server is back");
}

async fn f1(router: &Fleet) -> f64 {
    router.at_rest().await.sum("kvroute_router_history_cached_tokens_total", &[]).unwrap_or_default()
}
