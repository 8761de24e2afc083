//! A collector that is not there, or does not answer: requests do not notice.

use kvroute_sim::SimConfig;
use kvroute_testkit::{engine, kept_address};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::collector::Collector;
use super::router::{Router, TRACE, sampled};

const WARNING: &str = "spans are not exported";

fn number(line: &str, field: &str) -> u64 {
    let (_, rest) = line.split_once(&format!(" {field}=")).unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_collector_that_is_down_is_one_warning_each_time_it_is_tried() {
    let down = kept_address();
    let engine = engine(SimConfig::default()).await;
    let router = Router::start(&engine.url(), &[&format!("tracing.otlp=http://{down}")]).await;
    for _ in 0..5 {
        assert_eq!(router.ask("sim", "hello", None).await.status, 200);
    }
    router.until_lines_with(WARNING, 1).await;
    assert_eq!(router.ask("sim", "hello", None).await.status, 200);
    let mut warnings = router.until_lines_with(WARNING, 2).await;
    while warnings.iter().map(|warning| number(warning, "lost")).sum::<u64>() < 12 {
        warnings = router.until_lines_with(WARNING, warnings.len() + 1).await;
    }
    assert_eq!(warnings.iter().map(|warning| number(warning, "lost")).sum::<u64>(), 12, "{warnings:#?}");
    for (before, warning) in warnings.iter().enumerate() {
        assert_eq!(number(warning, "next_try_seconds"), 1 << before, "{warnings:#?}");
        assert!(
            ["WARN", "refused", &down.to_string()].iter().all(|text| warning.contains(text)),
            "{warning}"
        );
    }

    let collector = Collector::at(down).await;
    assert_eq!(router.ask("sim", "hello", Some(&sampled())).await.status, 200);
    collector.spans_of(TRACE, "request", 1).await;
    router.until_lines_with("spans are exported again", 1).await;
    assert_eq!(router.lines_with(WARNING).len(), warnings.len());
    router.stop().await;
    engine.stop().await;
}

#[tokio::test]
async fn a_collector_that_hangs_holds_up_neither_requests_nor_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut hanging = JoinSet::new();
    hanging.spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _peer)) = listener.accept().await {
            let _ = stream.read(&mut [0; 16]).await;
            held.push(stream);
        }
    });
    let engine = engine(SimConfig::default()).await;
    let router = Router::start(&engine.url(), &[&format!("tracing.otlp={url}"), "server.drain=1s"]).await;
    for _ in 0..50 {
        assert_eq!(router.ask("sim", "hello", None).await.status, 200);
    }
    let (status, log) = router.stop().await;
    assert!(status.success(), "{log}");
    assert!(log.contains("the collector did not take the last spans in time"), "{log}");
    engine.stop().await;
}
