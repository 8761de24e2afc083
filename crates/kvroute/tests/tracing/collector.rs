//! A collector on loopback that takes OTLP over HTTP and keeps every span.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Received>>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Received {
    spans: Vec<ReceivedSpan>,
    bytes: Vec<u8>,
}

/// One span, in a form that tests can read.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedSpan {
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty where there is none.
    pub(crate) parent: String,
    pub(crate) kind: i32,
    /// 2 says that it has failed.
    pub(crate) status: i32,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) events: Vec<String>,
    /// Of whoever sent it.
    pub(crate) resource: BTreeMap<String, String>,
}

// === impl Collector ===

impl Collector {
    pub(crate) async fn start() -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    pub(crate) async fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::default();
        let kept = Arc::clone(&received);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _peer)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                let service = service_fn(move |request| take(request, Arc::clone(&kept)));
                let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move { drop(connection.await) });
            }
        });
        Self { address, received, _serving: serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every span that has come.
    pub(crate) fn spans(&self) -> Vec<ReceivedSpan> {
        self.received.lock().spans.clone()
    }

    /// Waits for so many spans of a name in a trace.
    pub(crate) async fn spans_of(&self, trace: &str, name: &str, count: usize) -> Vec<ReceivedSpan> {
        let have_come = async {
            loop {
                let spans = self.spans().into_iter().filter(|span| span.trace == trace && span.name == name);
                let spans: Vec<_> = spans.collect();
                if spans.len() >= count {
                    return spans;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = timeout(Duration::from_secs(60), have_come).await;
        waited.unwrap_or_else(|_| panic!("{count} {name} of {trace} never came: {:#?}", self.spans()))
    }

    /// Whether a text stands anywhere in what has come.
    pub(crate) fn has_seen(&self, text: &str) -> bool {
        self.received.lock().bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

async fn take(
    request: Request<Incoming>,
    received: Arc<Mutex<Received>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/v1/traces"));
    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let export = ExportTraceServiceRequest::decode(body.clone()).unwrap();
    let mut received = received.lock();
    received.bytes.extend_from_slice(&body);
    for group in export.resource_spans {
        let resource = texts(&group.resource.unwrap().attributes);
        let spans = group.scope_spans.iter().flat_map(|scope| &scope.spans);
        received.spans.extend(spans.map(|span| read(span, &resource)));
    }
    Ok(Response::new(Full::default()))
}

fn read(span: &Span, resource: &BTreeMap<String, String>) -> ReceivedSpan {
    assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    ReceivedSpan {
        name: span.name.clone(),
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        kind: span.kind,
        status: span.status.as_ref().map_or(0, |status| status.code),
        attributes: texts(&span.attributes),
        events: span.events.iter().map(|event| event.name.clone()).collect(),
        resource: resource.clone(),
    }
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        other => panic!("an attribute is {other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(&pair.value))).collect()
}
