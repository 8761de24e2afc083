//! Engines without events: the router remembers what it placed.

use kvroute_sim::{EventEndpoint, Incident, SimConfig, SimEngine};
use kvroute_testkit::Fleet;

use super::asking::{ask, engine, prompt, rank};

#[tokio::test]
async fn a_prompt_returns_to_where_it_was_placed_and_a_wipe_is_learned_from_the_reports() {
    let mute = SimConfig { kv_events: EventEndpoint::None, kv_replay: EventEndpoint::None, ..engine() };
    let fleet = Fleet::start(vec![mute.clone(), mute.clone(), mute], "kv").await;
    let (short, long) = (prompt(1, 100), [prompt(1, 100), prompt(2, 100)].concat());
    let cold = ask(&fleet, &long).await;
    assert_eq!((cold.predicted, cold.reused), (0, 0));
    let is_home = |engine: &SimEngine| engine.address().to_string() == cold.worker;
    let home = fleet.engines.iter().position(is_home).unwrap();
    assert_eq!(rank(&fleet, home).await["source_state"], "remembered");
    let warm = ask(&fleet, &long).await;
    assert_eq!((&warm.worker, warm.predicted, warm.reused), (&cold.worker, 192, 192));

    // The beginning is asked for again, found gone, and what lay behind it is forgotten with it.
    fleet.engines[home].cause(Incident::Wipe).await;
    let wrong = ask(&fleet, &short).await;
    assert_eq!((&wrong.worker, wrong.predicted, wrong.reused), (&cold.worker, 96, 0));
    let corrected = ask(&fleet, &long).await;
    assert!(corrected.predicted < 192, "{corrected:?}");
    fleet.stop().await;
}
