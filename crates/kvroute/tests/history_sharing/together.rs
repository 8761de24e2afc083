//! What one router saw complete counts at the others.

use super::asking::{BLOCK, ask, body, prompt, send};
use super::replicas::{
    behind, dropped, is, messages, peers, sharing, sharing_routers, stop, until, until_entries, urls,
};
use super::server::{self, Server};

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_one_router_completed_is_history_for_all() {
    if !server::is_there() {
        return;
    }
    let nats = Server::start().await;
    let routers = sharing_routers(&nats, 3).await;
    let [a, b, c] = &routers[..] else { panic!("three routers") };
    let (first, second) = (prompt(1, 5 * BLOCK + 3), prompt(2, 3 * BLOCK));
    assert_eq!(ask(a, &first).await, 0);
    until_entries(b, 5).await;
    until_entries(c, 5).await;
    assert_eq!(ask(b, &first).await, 5 * BLOCK);
    assert_eq!(ask(b, &second).await, 0);
    for router in [a, c] {
        until_entries(router, 8).await;
        assert_eq!(ask(router, &second).await, 3 * BLOCK);
    }
    let scrape = c.scrape().await;
    assert!(messages(&scrape, "received", "ok") > 0.0 && messages(&scrape, "sent", "ok") > 0.0);
    assert_eq!(
        (messages(&scrape, "received", "own"), messages(&scrape, "received", "other_domain")),
        (0.0, 0.0)
    );
    assert_eq!(dropped(&scrape), 0.0);
    stop(routers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_comes_later_knows_what_the_others_know_and_one_that_goes_is_missed() {
    if !server::is_there() {
        return;
    }
    let nats = Server::start().await;
    let mut routers = sharing_routers(&nats, 2).await;
    send(&routers[0], &body(&prompt(1, 4 * BLOCK))).await;
    send(&routers[1], &body(&prompt(2, 3 * BLOCK))).await;
    until_entries(&routers[0], 7).await;
    until_entries(&routers[1], 7).await;
    let engines = urls(&routers[0]);
    let late = behind(&engines, sharing(&engines, &nats)).await;
    until_entries(&late, 7).await;
    assert_eq!(ask(&late, &prompt(2, 3 * BLOCK)).await, 3 * BLOCK);
    until(&routers[0], |scrape| peers(scrape) == 2.0).await;
    late.stop().await;
    until(&routers[0], |scrape| peers(scrape) == 1.0).await;
    routers.pop().unwrap().stop().await;
    until(&routers[0], |scrape| peers(scrape) == 0.0 && is(scrape, "on")).await;
    stop(routers).await;
}
