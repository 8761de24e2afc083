//! Against libzmq, which engines publish with.

use kvroute_engine::events::{EventAddress, SourceChange, SourceIncident, SourceReason};

use crate::followed::{Followed, hex, payload};
use crate::peer::{Peer, python};

const ANY: &str = "tcp://127.0.0.1:*";

async fn publish(engine: &mut Peer, verb: &str, sequence: u64, mark: u64) {
    engine.command(&format!("{verb} {sequence} {}", hex(&payload(mark)))).await;
}

#[tokio::test]
async fn follows_an_engine_through_loss_crash_and_restart() {
    let Some(python) = python() else { return };
    let (mut engine, events, replay) = Peer::engine(&python, &[ANY, ANY]).await;
    for sequence in 0..3 {
        publish(&mut engine, "publish", sequence, sequence).await;
    }
    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.until_applied(&[0, 1, 2]).await;
    followed.until_exact().await;

    publish(&mut engine, "lose", 3, 3).await;
    publish(&mut engine, "publish", 4, 4).await;
    followed.until_applied(&[0, 1, 2, 3, 4]).await;
    followed.until_exact().await;
    assert_eq!(followed.clears, 0);

    engine.kill().await;
    let (mut engine, ..) = Peer::engine(&python, &[&events, &replay]).await;
    for sequence in 0..7 {
        publish(&mut engine, "publish", sequence, 100 + sequence).await;
    }
    followed.until_applied(&[100, 101, 102, 103, 104, 105, 106]).await;
    followed.until_exact().await;
    assert_eq!(followed.clears, 1);
    assert!(followed.incidents.contains(&SourceIncident::Gap), "{:?}", followed.incidents);
    let restarts = followed.incidents.iter().filter(|incident| **incident == SourceIncident::Restart);
    assert_eq!(restarts.count(), 1);
    followed.stop().await;
}

#[tokio::test]
async fn waits_for_an_engine_that_does_not_exist_yet() {
    let Some(python) = python() else { return };
    let (engine, events, replay) = Peer::engine(&python, &[ANY, ANY]).await;
    engine.kill().await;
    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.take_one().await;

    let (mut engine, ..) = Peer::engine(&python, &[&events, &replay]).await;
    publish(&mut engine, "publish", 0, 7).await;
    followed.until_applied(&[7]).await;
    followed.until_exact().await;
    followed.stop().await;
}

#[tokio::test]
async fn an_engine_that_forgot_is_degraded_by_name() {
    let Some(python) = python() else { return };
    let (mut engine, events, replay) = Peer::engine(&python, &[ANY, ANY]).await;
    publish(&mut engine, "publish", 0, 0).await;
    engine.command("forget").await;
    publish(&mut engine, "publish", 1, 1).await;
    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.until_applied(&[1]).await;
    followed.until_reason(SourceReason::ReplayTooShort).await;
    followed.stop().await;
}

#[tokio::test]
async fn a_publisher_may_connect_to_us() {
    let Some(python) = python() else { return };
    let bind = EventAddress::Bind("tcp://127.0.0.1:0".parse().unwrap());
    let mut followed = Followed::start(bind, None).await;
    let ours = format!("connect:{}", followed.bound_to.clone().unwrap());

    for process in [100, 200] {
        let (mut engine, ..) = Peer::engine(&python, &[&ours, "-"]).await;
        // A subscription takes effect some time after the connection; numbers before it are lost, as in life.
        let mut sequence = 0;
        let is_heard = |followed: &Followed| followed.applied.last() >= Some(&process);
        while !is_heard(&followed) {
            publish(&mut engine, "publish", sequence, process + sequence).await;
            sequence += 1;
            let heard = followed.until(is_heard);
            let _ = tokio::time::timeout(std::time::Duration::from_millis(50), heard).await;
        }
        // Far enough that the second process, whose first numbers are lost too, cannot seem to continue this one.
        for later in sequence..sequence + 50 {
            publish(&mut engine, "publish", later, process + later).await;
        }
        followed.until(|followed| followed.applied.last() == Some(&(process + sequence + 49))).await;
        engine.kill().await;
    }
    assert!(followed.applied.iter().all(|mark| *mark >= 200), "{:?}", followed.applied);
    assert_eq!(followed.clears, 1);
    followed.stop().await;
}

#[tokio::test]
async fn a_flood_on_a_slow_router_loses_nothing_unnoticed() {
    let Some(python) = python() else { return };
    let (mut engine, events, replay) = Peer::engine(&python, &[ANY, ANY]).await;
    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.until_exact().await;
    // Junk payloads still move the sequence on; the follower holds 4 updates and nobody takes them meanwhile.
    engine.command("flood 20000 1000").await;
    let mut batches = 0;
    while batches < 20_000 {
        let update = followed.updates.recv().await.unwrap();
        if let SourceChange::Apply { batch, .. } = update.change {
            assert_eq!(batch.undecodable, 1);
            batches += 1;
        }
    }
    followed.stop().await;
}

#[tokio::test]
async fn without_a_replay_socket_a_restart_clears_and_the_new_process_is_followed() {
    let Some(python) = python() else { return };
    let (mut engine, events, _) = Peer::engine(&python, &[ANY, "-"]).await;
    let mut followed = Followed::connect(&events, None).await;
    // Numbers before the subscription takes effect are lost, as in life.
    let mut next = 0;
    while followed.applied.is_empty() {
        publish(&mut engine, "publish", next, next).await;
        next += 1;
        let heard = followed.until(|followed| !followed.applied.is_empty());
        let _ = tokio::time::timeout(std::time::Duration::from_millis(50), heard).await;
    }
    engine.command(&format!("burst {next} 300")).await;
    followed.until(|followed| followed.applied.last() == Some(&(next + 299))).await;
    assert_eq!(followed.clears, 0);

    engine.kill().await;
    let (mut engine, ..) = Peer::engine(&python, &[&events, "-"]).await;
    let mut sequence = 0;
    while followed.clears == 0 {
        publish(&mut engine, "publish", sequence, 1000 + sequence).await;
        sequence += 1;
        let heard = followed.until(|followed| followed.clears == 1);
        let _ = tokio::time::timeout(std::time::Duration::from_millis(50), heard).await;
    }
    publish(&mut engine, "publish", sequence, 1000 + sequence).await;
    followed.until(|followed| followed.applied.last() == Some(&(1000 + sequence))).await;
    assert!(followed.applied.iter().all(|mark| *mark >= 1000), "{:?}", followed.applied);
    let restarts = followed.incidents.iter().filter(|incident| **incident == SourceIncident::Restart);
    assert_eq!((restarts.count(), followed.clears), (1, 1));
    followed.stop().await;
}

#[tokio::test]
async fn a_slow_replay_is_waited_for() {
    let Some(python) = python() else { return };
    let (mut engine, events, replay) = Peer::engine(&python, &[ANY, ANY, "slow"]).await;
    for sequence in 0..10 {
        publish(&mut engine, "publish", sequence, sequence).await;
    }
    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.until_reason(SourceReason::CatchingUp).await;
    followed.until_applied(&(0..10).collect::<Vec<_>>()).await;
    followed.until_exact().await;
    publish(&mut engine, "lose", 10, 10).await;
    publish(&mut engine, "publish", 11, 11).await;
    followed.until_applied(&(0..12).collect::<Vec<_>>()).await;
    followed.until_exact().await;
    assert_eq!(followed.clears, 0);
    followed.stop().await;
}

#[tokio::test]
async fn a_replay_socket_that_throws_away_what_its_reader_is_too_slow_for_is_read_whole() {
    let Some(python) = python() else { return };
    let (mut engine, events, replay) = Peer::engine(&python, &[ANY, ANY, "replay-hwm=1000"]).await;
    engine.command("burst 0 9000").await;
    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.until(|followed| followed.applied.last() == Some(&8_999)).await;
    followed.until_exact().await;
    assert_eq!(followed.applied, (0..9_000).collect::<Vec<_>>());
    let missed = followed.incidents.iter().any(|incident| matches!(incident, SourceIncident::Missed(_)));
    assert!(!missed && followed.clears == 0, "{:?}", followed.incidents);
    followed.stop().await;
}

#[tokio::test]
async fn a_hundred_thousand_messages_at_once_arrive_in_one_run() {
    let Some(python) = python() else { return };
    let (mut engine, events, replay) = Peer::engine(&python, &[ANY, ANY]).await;
    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.until_exact().await;
    engine.command("burst 0 100000").await;
    followed.until(|followed| followed.applied.last() == Some(&99_999)).await;
    assert_eq!((followed.applied.len(), followed.clears), (100_000, 0));
    followed.until_exact().await;
    followed.stop().await;
}

#[tokio::test]
async fn a_publisher_that_drops_under_load_is_mended_or_named() {
    let Some(python) = python() else { return };
    let (mut engine, events, replay) = Peer::engine(&python, &[ANY, ANY, "hwm=20"]).await;
    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.until_exact().await;
    for burst in 0..6 {
        engine.command(&format!("burst {} 2000", burst * 2000)).await;
    }
    // The very last ones may be among those that were dropped; the next one to come tells.
    let mut next = 12_000;
    let is_done = |followed: &Followed| followed.applied.last() >= Some(&12_000);
    while !is_done(&followed) {
        engine.command(&format!("burst {next} 1")).await;
        next += 1;
        let _ = tokio::time::timeout(std::time::Duration::from_millis(50), followed.until(is_done)).await;
    }
    let is_one_run = followed.applied.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    assert!(is_one_run, "{} applied, {} clears", followed.applied.len(), followed.clears);
    assert!(followed.incidents.contains(&SourceIncident::Gap), "nothing was dropped: this proves nothing");
    let is_whole = followed.applied.first() == Some(&0);
    let missed = followed.incidents.iter().any(|incident| matches!(incident, SourceIncident::Missed(_)));
    assert_eq!(is_whole, !missed, "{:?}", followed.status);
    followed.stop().await;
}
