//! Sessions that do not move, while their worker is busy or away.

use kvroute_router::config::WorkerConfig;

use crate::*;

const SESSION: (&str, &str) = ("x-session-id", "s");

/// Two workers, of which a session gets one and keeps it.
async fn hard_sessions(queue: QueueConfig) -> Fleet {
    Fleet::start_with(vec![SimConfig::default(); 2], |urls| hard(urls, queue)).await
}

fn hard(urls: &[String], queue: QueueConfig) -> ServeConfig {
    let mut config = config(urls, queue);
    config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
    config.router.pools[0].policy = "sticky".to_owned();
    config.router.pools[0].policy_options.hard_sessions = true;
    config
}

/// Begins the session; the position of its worker.
async fn begun(fleet: &Fleet) -> usize {
    let answer = ask(fleet, 0, &[SESSION]).await.unwrap();
    let home = answer.header("x-kvroute-worker").unwrap().to_owned();
    fleet.engines.iter().position(|engine| home == format!("{}/0", engine.address())).unwrap()
}

/// Stops the session's worker and waits until the router knows. Answers how to start it again.
async fn away(fleet: &mut Fleet, home: usize) -> SimConfig {
    let engine = fleet.engines.remove(home);
    let listen = engine.address();
    engine.stop().await;
    let id = WorkerConfig::at(format!("http://{listen}")).id().to_string();
    let is_away = |answer: &Answer| {
        let workers = answer.json();
        workers.as_array().unwrap().iter().any(|worker| worker["id"] == *id && worker["state"] == "unhealthy")
    };
    fleet.client.until(&fleet.admin("/api/workers"), is_away).await;
    SimConfig { listen, ..SimConfig::default() }
}

#[tokio::test]
async fn those_of_a_session_whose_worker_was_away_waited_in_no_line_and_knew_no_limit() {
    let queue = QueueConfig { limit: 2, ..QueueConfig::default() };
    let mut fleet = hard_sessions(queue).await;
    let home = begun(&fleet).await;
    let absent = away(&mut fleet, home).await;
    let waiting: Vec<_> = (1..3).map(|number| ask(&fleet, number, &[SESSION])).collect();
    until_pending(&fleet, 2).await;
    let one_too_many = ask(&fleet, 3, &[SESSION]).await.unwrap();
    assert_eq!((one_too_many.status.as_u16(), &one_too_many.error()["code"]), (503, &json!("no_worker")));
    assert_eq!(ask(&fleet, 4, &[]).await.unwrap().status, 200, "others have a worker");
    let started = fleet.scrape().await.count("dynamo_component_router_requests_started_total", &[]);
    assert_eq!(started, 2, "nothing else was placed");

    let engine = engine(absent).await;
    for answer in waiting {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("x-kvroute-worker"), Some(format!("{}/0", engine.address()).as_str()));
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_queue_wait_seconds_count", &[("model", "sim")]), 2);
    assert_eq!(scrape.count(REFUSED, &[("reason", "no_worker")]), 1);
    fleet.stop().await;
    engine.stop().await;
}

#[tokio::test]
async fn whose_worker_stayed_away_was_not_told_that_its_session_does_not_move() {
    let queue = QueueConfig { timeout: Duration::from_millis(200), ..QueueConfig::default() };
    let mut fleet = hard_sessions(queue).await;
    let home = begun(&fleet).await;
    let absent = away(&mut fleet, home).await;
    let refused = ask(&fleet, 1, &[SESSION]).await.unwrap();
    assert_eq!((refused.status.as_u16(), &refused.error()["code"]), (503, &json!("no_worker")));
    let body =
        json!({"endpoint": "/v1/chat/completions", "body": question(1), "headers": {"x-session-id": "s"}});
    let advised = fleet.client.post(&fleet.admin("/api/route"), &body).await;
    assert_eq!(advised.status, 503, "{}", advised.text());
    for answer in [refused, advised] {
        let message = answer.error()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("sessions of this pool do not move"), "{message}");
        assert!(message.contains(&format!("{} is unhealthy", absent.listen)), "{message}");
        assert!(!message.contains(&fleet.engines[0].address().to_string()), "it is well: {message}");
    }
    fleet.stop().await;
}

#[tokio::test]
async fn a_session_waits_while_its_own_worker_is_busy_whoever_else_has_room() {
    let hard = |urls: &[String]| hard(urls, QueueConfig::default());
    let fleet = Held::of(vec![SimConfig::default(); 2], Fault::None, hard).await;
    let begun = ask(&fleet, 0, &[SESSION]).await.unwrap();
    let home = begun.header("x-kvroute-worker").unwrap().trim_end_matches("/0").to_owned();
    fleet.hold();
    let named = [("x-kvroute-worker", home.as_str())];
    let (client, url) = (fleet.client.clone(), fleet.data("/v1/chat/completions"));
    let body = question(1);
    let busy = client.post_with(&url, &named, &body);
    let waits_meanwhile = async {
        until_started(&fleet, 2).await;
        let waiting = ask(&fleet, 2, &[SESSION]);
        until_pending(&fleet, 1).await;
        fleet.release();
        waiting.await.unwrap()
    };
    let (busy, waited) = tokio::join!(busy, waits_meanwhile);
    assert_eq!([busy.status, waited.status], [200, 200]);
    assert_eq!(waited.header("x-kvroute-worker"), Some(format!("{home}/0").as_str()));
    fleet.stop().await;
}
