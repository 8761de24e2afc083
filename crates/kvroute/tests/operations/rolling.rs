//! Rolling restarts: of the workers one by one, and of one router of two.

use http::Method;
use kvroute_server::Server;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Fleet, engine, server_config};
use serde_json::Value;

use super::admin::{path_of, shown};
use super::caller::{Caller, until};
use super::load::Load;

#[tokio::test]
async fn workers_that_are_restarted_one_by_one_cost_no_request() {
    let mut fleet = Fleet::start(vec![SimConfig::default(), SimConfig::default()], "round-robin").await;
    let (caller, load) = (Caller::new(), Load::on(vec![fleet.data("")]));
    for number in 0..2 {
        load.more(8).await;
        let url = fleet.engines[number].url();
        let act = async |action: &str| {
            let path = fleet.admin(&format!("{}/{action}", path_of(&url)));
            assert_eq!(caller.json(Method::POST, &path, &Value::Null).await.0, 200);
        };
        act("drain").await;
        until("nothing runs there", async || shown(&fleet, &url).await["running"] == 0).await;
        let listen = url.trim_start_matches("http://").parse().unwrap();
        fleet.engines.remove(number).stop().await;
        load.more(8).await;
        fleet.engines.insert(number, engine(SimConfig { listen, ..SimConfig::default() }).await);
        until("the router has seen the new one", async || {
            let worker = shown(&fleet, &url).await;
            worker["problem"] == "" && !worker["ranks"].as_array().unwrap().is_empty()
        })
        .await;
        assert_eq!(shown(&fleet, &url).await["state"], "draining", "a restart does not end the drain");
        assert_eq!(fleet.engines[number].stats().requests, 0);
        let path = fleet.admin(&format!("{}/undrain", path_of(&url)));
        assert_eq!(caller.json(Method::POST, &path, &Value::Null).await.0, 200);
        until("the new one serves", async || fleet.engines[number].stats().requests > 0).await;
    }
    assert!(load.end().await > 32);
    fleet.at_rest().await;
    fleet.stop().await;
}

#[tokio::test]
async fn a_router_that_stops_beside_another_one_costs_no_request() {
    let fleet = Fleet::start(vec![SimConfig::default(), SimConfig::default()], "kv").await;
    let urls: Vec<_> = fleet.engines.iter().map(|engine| engine.url()).collect();
    let second = Server::start(server_config(&urls, "kv")).await.unwrap();
    let data = format!("http://{}", second.data_address());
    fleet.client.until(&format!("{data}/ready"), |answer| answer.status == 200).await;
    let load = Load::on(vec![fleet.data(""), data]);
    load.more(20).await;
    second.stop().await;
    load.more(20).await;
    load.end().await;
    fleet.at_rest().await;
    fleet.stop().await;
}
