//! `traceparent` and `tracestate` on their way from a client to a worker. Nothing is exported here.

use kvroute_router::config::CountMode;
use kvroute_server::{ServeConfig, Server};
use kvroute_testkit::{CapturedLog, Client, PlainWorker, server_config};
use serde_json::json;

use super::worker::{MODEL, answering};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

struct Route {
    worker: PlainWorker,
    server: Server,
    client: Client,
}

// === impl Route ===

impl Route {
    async fn start(change: impl FnOnce(&mut ServeConfig)) -> Self {
        let worker = answering().await;
        let mut config = server_config(&[worker.url()], "round-robin");
        config.router.pools[0].count = CountMode::Off;
        change(&mut config);
        let route = Self { worker, server: Server::start(config).await.unwrap(), client: Client::default() };
        let ready = format!("http://{}/ready", route.server.data_address());
        route.client.until(&ready, |answer| answer.status == 200).await;
        route
    }

    /// What the worker is told by these headers of a client: its `traceparent`, and its `tracestate` if it gets one.
    async fn told(&self, headers: &[(&str, &str)]) -> (String, Option<String>) {
        let url = format!("http://{}/v1/completions", self.server.data_address());
        let body = json!({"model": MODEL, "prompt": "hello"});
        let answer = self.client.post_with(&url, headers, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let last = |header| self.worker.given(header).pop().unwrap();
        let [parent] = last("traceparent").try_into().unwrap();
        let mut states = last("tracestate");
        assert!(states.len() <= 1, "{states:?}");
        (parent, states.pop())
    }
}

/// Version, trace, parent and flags.
fn fields(parent: &str) -> [&str; 4] {
    let fields: Vec<_> = parent.split('-').collect();
    let lengths: Vec<_> = fields.iter().map(|field| field.len()).collect();
    assert_eq!(lengths, [2, 32, 16, 2], "{parent}");
    fields.try_into().unwrap()
}

#[tokio::test]
async fn a_worker_sees_the_clients_trace_with_a_parent_of_the_routers() {
    let log = CapturedLog::start();
    let route = Route::start(|_| {}).await;
    let mut parents = Vec::new();
    for flags in ["01", "00"] {
        let sent = format!("00-{TRACE}-{SPAN}-{flags}");
        let headers = [("traceparent", sent.as_str()), ("tracestate", "a=1"), ("tracestate", "b=2, c=3")];
        let (parent, state) = route.told(&headers).await;
        let [version, trace, span, carried] = fields(&parent);
        assert_eq!((version, trace, carried), ("00", TRACE, flags));
        assert_ne!(span, SPAN);
        assert_eq!(state.as_deref(), Some("a=1,b=2,c=3"));
        parents.push(span.to_owned());
    }
    assert_ne!(parents[0], parents[1]);
    let of_trace = log.entries(|line| line.message == "request" && line.field("trace_id") == TRACE);
    assert_eq!(of_trace.len(), 2);
    route.server.stop().await;
}

#[tokio::test]
async fn what_is_no_trace_of_a_client_begins_one() {
    let route = Route::start(|_| {}).await;
    let valid = format!("00-{TRACE}-{SPAN}-01");
    let broken = format!("00-{TRACE}-{SPAN}-01-what");
    let zero = format!("00-{}-{SPAN}-01", "0".repeat(32));
    let mut traces = vec![TRACE.to_owned()];
    for headers in [
        &[][..],
        &[("traceparent", broken.as_str())],
        &[("traceparent", zero.as_str())],
        &[("traceparent", valid.as_str()), ("traceparent", valid.as_str())],
    ] {
        let headers = [headers, &[("tracestate", "a=1")]].concat();
        let (parent, state) = route.told(&headers).await;
        let [_, trace, span, flags] = fields(&parent);
        assert_eq!((flags, state), ("01", None), "{headers:?}");
        assert!(!traces.iter().any(|other| other == trace) && span != SPAN, "{parent}");
        traces.push(trace.to_owned());
    }
    route.server.stop().await;
}

#[tokio::test]
async fn a_share_of_nothing_keeps_only_what_clients_keep() {
    let route = Route::start(|config| config.router.trace_sample = 0.0).await;
    let (parent, _) = route.told(&[]).await;
    assert_eq!(fields(&parent)[3], "00");
    let (parent, _) = route.told(&[("traceparent", &format!("00-{TRACE}-{SPAN}-01"))]).await;
    assert_eq!(fields(&parent)[3], "01");
    route.server.stop().await;
}
