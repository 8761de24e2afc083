//! Only routers that have a history and share it share anything.

use kvroute_server::ServeConfig;
use kvroute_testkit::{Exposition, Fleet};

use super::asking::{BLOCK, body, prompt, send};
use super::replicas::{is, messages, peers, sharing, start, stop, until, until_entries};
use super::server::{self, Server};

/// Two routers of which the second one has these settings; the first one has both.
async fn pair(nats: &Server, history: bool, replica_sync: bool) -> Vec<Fleet> {
    let changed = |urls: &[String], is_changed: bool| -> ServeConfig {
        let mut config = sharing(urls, nats);
        config.router.pools[0].history.enabled = history || !is_changed;
        config.router.cluster.replica_sync = replica_sync || !is_changed;
        config
    };
    start(
        [false, true]
            .into_iter()
            .map(|is_changed| move |urls: &[String]| changed(urls, is_changed))
            .collect(),
    )
    .await
}

fn f1(scrape: &Exposition) -> Option<f64> {
    scrape.sum("kvroute_router_history_cached_tokens_total", &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_history_that_is_shared_knows_what_others_completed() {
    if !server::is_there() {
        return;
    }
    for (history, replica_sync) in [(true, true), (true, false), (false, true), (false, false)] {
        let nats = Server::start().await;
        let routers = pair(&nats, history, replica_sync).await;
        let [sharer, other] = &routers[..] else { panic!("two routers") };
        let shares = history && replica_sync;
        until(sharer, |scrape| is(scrape, "on") && peers(scrape) == f64::from(shares)).await;
        send(sharer, &body(&prompt(1, 4 * BLOCK))).await;
        let told = until(sharer, |scrape| messages(scrape, "sent", "ok") > 1.0).await;
        assert!(f1(&told).is_some());
        if shares {
            until_entries(other, 4).await;
        }
        send(other, &body(&prompt(1, 4 * BLOCK))).await;
        let scrape = other.at_rest().await;
        let expected = history.then_some(if shares { 4.0 * BLOCK as f64 } else { 0.0 });
        assert_eq!(f1(&scrape), expected, "history: {history}, replica_sync: {replica_sync}");
        let state = scrape.family("kvroute_history_sharing");
        assert_eq!(state.is_empty(), !history, "families only with a history");
        assert!(!history || is(&scrape, if shares { "on" } else { "off" }));
        stop(routers).await;
    }
}
