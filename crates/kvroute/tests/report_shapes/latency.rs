//! The time that the router itself adds is sampled where it is added.

use kvroute_core::Tokens;
use kvroute_router::config::BusyThreshold;
use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{Exposition, Fleet, server_config};

use crate::asking::{QUESTION, Shape};

fn samples(scrape: &Exposition, part: &str) -> u64 {
    scrape.count("kvroute_added_latency_seconds_count", &[("part", part)])
}

/// A queue is no latency of the router: whoever looks at both must not see the same seconds twice.
#[tokio::test]
async fn time_in_the_queue_is_not_the_routers_own() {
    let slow = SimConfig { prefill_tps: 100, ..SimConfig::default() };
    let one_at_a_time = |urls: &[String]| {
        let mut config = server_config(urls, "least-loaded");
        config.router.pools[0].queue.threshold = BusyThreshold::Tokens(Tokens::ZERO);
        config
    };
    let fleet = Fleet::start_with(vec![slow], one_at_a_time).await;
    let shape = Shape::all()[0];
    tokio::join!(shape.ask(&fleet, QUESTION), shape.ask(&fleet, QUESTION), shape.ask(&fleet, QUESTION));
    let scrape = fleet.at_rest().await;
    let seconds = |name: &str, labels: &[(&str, &str)]| scrape.sum(name, labels).unwrap();
    let waited = seconds("kvroute_queue_wait_seconds_sum", &[]);
    let added = seconds("kvroute_added_latency_seconds_sum", &[("part", "before_dispatch")]);
    assert!(waited > 0.0, "nobody had to wait");
    assert!(added < waited, "{added} s added, {waited} s waited");
    fleet.stop().await;
}

#[tokio::test]
async fn every_attempt_and_every_piece_of_a_stream_is_a_sample() {
    // Slow enough that each token is a piece of its own.
    let fleet = Fleet::start(vec![SimConfig { decode_tps: 20, ..SimConfig::default() }], "kv").await;
    let scrape = fleet.scrape().await;
    assert_eq!((samples(&scrape, "before_dispatch"), samples(&scrape, "per_chunk")), (0, 0));
    let (streams, wholes): (Vec<_>, Vec<_>) = Shape::all().into_iter().partition(|shape| shape.stream);
    for shape in &wholes {
        shape.ask(&fleet, QUESTION).await;
    }
    let scrape = fleet.at_rest().await;
    assert_eq!((samples(&scrape, "before_dispatch"), samples(&scrape, "per_chunk")), (4, 0));
    for shape in &streams {
        shape.ask(&fleet, QUESTION).await;
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(samples(&scrape, "before_dispatch"), 8);
    // Four tokens a stream.
    assert!(samples(&scrape, "per_chunk") >= 4 * 4, "{}", samples(&scrape, "per_chunk"));
    let refused = Faults { refuse_stream_options: true, ..Faults::default() };
    fleet.engines[0].set_faults(refused).await.unwrap();
    let mut body = streams[0].asks("x");
    body.as_object_mut().unwrap().remove("stream_options");
    fleet.client.post(&fleet.data(streams[0].endpoint.path()), &body).await;
    let scrape = fleet.at_rest().await;
    assert_eq!(samples(&scrape, "before_dispatch"), 9, "asking the worker again is no further sample");
    fleet.stop().await;
}
