//! The same prompt, twice: what no question can tell.
//!
//! A worker that works stores the prompt's blocks and says so in an event, and reports at the second time what it had. The
//! prompt begins with the time, so that nobody has computed it before, and is some blocks long, because less than a block is
//! never reused. Each request generates one token.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use kvroute_core::{BlockSize, Tokens, WorkerReport, WorkerRole};
use kvroute_engine::{EngineKind, HttpClient, Probe, RankSteering};
use kvroute_openai::{BodyScan, ClientRequest, Endpoint, Observation};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::collected::{Trial, TrialResult};
use super::parity::Counter;
use super::subjects::Subject;
use crate::http_client::with_causes;

/// A busy engine may have others before this; a cold one compiles first.
const PATIENCE: Duration = Duration::from_secs(60);

/// Blocks that the prompt should fill.
const BLOCKS: u64 = 3;
/// Words of the shortest and of the longest prompt.
const WORDS: std::ops::RangeInclusive<u64> = 24..=6_000;
/// Of a context no more is used: a word may be several tokens.
const SHARE_OF_CONTEXT: u64 = 8;
const USUAL_CONTEXT: Tokens = Tokens::new(2048);

/// One of the two, to be sent as it is.
struct TrialRequest<'a> {
    client: &'a HttpClient,
    probe: &'a Probe,
    endpoint: Endpoint,
    body: Bytes,
}

/// What a whole answer said.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    prompt_tokens: Option<u64>,
    report: Option<WorkerReport>,
}

/// No proper answer.
enum Refusal {
    /// Perhaps another endpoint answers.
    OfEndpoint(String),
    /// No other will do better.
    Final(String),
}

/// Two requests, one after the other.
pub(super) async fn run(client: &HttpClient, subject: &Subject, probe: &Probe, counter: &Counter) -> Trial {
    if let Some(reason) = reason_against(subject, probe) {
        return Trial::NotSent(reason);
    }
    let Some(model) = super::collect::model_of(subject, probe) else {
        return Trial::NotSent("the worker serves no model to ask for");
    };
    let text = prompt(probe);
    let mut refusal = String::new();
    for endpoint in [Endpoint::ChatCompletions, Endpoint::Completions] {
        let request = TrialRequest { client, probe, endpoint, body: body(endpoint, model, &text) };
        match request.twice().await {
            Ok(answers) => return Trial::Done(result(&answers, counter.count(endpoint, &request.body))),
            Err(Refusal::Final(problem)) => return Trial::Refused(problem),
            // A model without a chat template has no chats, and some servers have nothing else.
            Err(Refusal::OfEndpoint(problem)) => refusal = problem,
        }
    }
    Trial::Refused(refusal)
}

/// Halves of a disaggregated pair wait for the other half, unless the engine lets them work alone.
fn reason_against(subject: &Subject, probe: &Probe) -> Option<&'static str> {
    let role = probe.role.or(subject.settings.role).unwrap_or(WorkerRole::Aggregated);
    let waits = matches!(probe.engine, EngineKind::Sglang | EngineKind::TensorRtLlm);
    (waits && role != WorkerRole::Aggregated)
        .then_some("a prefill or decode worker of this engine answers no request alone")
}

/// A prompt that nobody has computed before.
fn prompt(probe: &Probe) -> String {
    const SENTENCE: &str = "the quick brown fox jumps over the lazy dog and runs back home again at once";
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let block = u64::from(probe.block_size.unwrap_or(BlockSize::DEFAULT).get());
    let longest = probe.context_length.unwrap_or(USUAL_CONTEXT).get() / SHARE_OF_CONTEXT;
    let words = (block * BLOCKS).min(longest).clamp(*WORDS.start(), *WORDS.end());
    let words = usize::try_from(words).unwrap_or(usize::MAX);
    let filling: Vec<_> = SENTENCE.split(' ').cycle().take(words).collect();
    format!("{} {}", since_epoch.as_nanos(), filling.join(" "))
}

fn body(endpoint: Endpoint, model: &str, text: &str) -> Bytes {
    let mut body = json!({ "model": model, "max_tokens": 1, "temperature": 0, "stream": false });
    let (name, prompt) = match endpoint {
        Endpoint::Completions => ("prompt", json!(text)),
        _ => ("messages", json!([{ "role": "user", "content": text }])),
    };
    body[name] = prompt;
    Bytes::from(body.to_string())
}

// === impl TrialRequest ===

impl TrialRequest<'_> {
    async fn twice(&self) -> Result<[Told; 2], Refusal> {
        Ok([self.once().await?, self.once().await?])
    }

    async fn once(&self) -> Result<Told, Refusal> {
        let path = self.endpoint.path();
        let answered = timeout(PATIENCE, self.answer()).await;
        let answered = answered.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
        let (status, body) = answered.map_err(|problem| Refusal::Final(format!("{path}: {problem}")))?;
        if status == StatusCode::OK {
            return Ok(Told::read(body));
        }
        let problem = format!("{path} answers {status}: {}", message_of(&body));
        Err(if status.is_client_error() { Refusal::OfEndpoint(problem) } else { Refusal::Final(problem) })
    }

    async fn answer(&self) -> Result<(StatusCode, Bytes), String> {
        let response = self.send().await?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| with_causes(&error))?;
        Ok((status, body.to_bytes()))
    }

    async fn send(&self) -> Result<Response<Incoming>, String> {
        let url = format!("{}{}", self.probe.url().trim_end_matches('/'), self.endpoint.path());
        let request = Request::builder().method(Method::POST).uri(url);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let mut request = request.body(Full::new(self.body.clone())).map_err(|error| with_causes(&error))?;
        // Both must find the same cache.
        if let (RankSteering::Header(name), 2..) = (self.probe.engine.rank_steering(), self.probe.dp_ranks) {
            request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static("0"));
        }
        self.client.request(request).await.map_err(|error| with_causes(&error))
    }
}

// === impl Told ===

impl Told {
    fn read(body: Bytes) -> Self {
        let mut told = Self::default();
        for observation in BodyScan::read(body).observations {
            match observation {
                Observation::Usage(counts) => told.prompt_tokens = counts.prompt.or(told.prompt_tokens),
                Observation::Report(report) => {
                    told.report = Some(report);
                    told.prompt_tokens = told.prompt_tokens.or_else(|| report.prompt.count());
                }
                _ => {}
            }
        }
        told
    }
}

fn result(answers: &[Told; 2], counted_tokens: Option<u64>) -> TrialResult {
    let [cold, warm] = answers;
    let prompt_tokens = warm.prompt_tokens.or(cold.prompt_tokens);
    TrialResult { prompt_tokens, counted_tokens, warm: warm.report }
}

/// What the engine says is wrong, in any of the shapes of errors.
fn message_of(body: &[u8]) -> String {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let told = parsed.as_ref().and_then(|body| {
        let places = [&body["error"]["message"], &body["message"], &body["detail"], &body["error"]];
        places.into_iter().find_map(Value::as_str)
    });
    let whole = || String::from_utf8_lossy(body).into_owned();
    told.map_or_else(whole, str::to_owned).chars().take(200).collect()
}

/// The prompt of a request, as a router reads it.
pub(super) fn prompt_of(endpoint: Endpoint, body: &Bytes) -> Option<kvroute_openai::Prompt> {
    ClientRequest::parse(endpoint, body.clone()).ok().map(|request| request.prompt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_in_its_own_words_whatever_its_shape() {
        for (body, told) in [
            (r#"{"error":{"message":"too long","code":400}}"#, "too long"),
            (r#"{"object":"error","message":"flat"}"#, "flat"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            (r#"{"error":"plain"}"#, "plain"),
            ("<html>", "<html>"),
        ] {
            assert_eq!(message_of(body.as_bytes()), told);
        }
    }

    #[test]
    fn an_answer_without_details_tells_its_length_and_no_reuse() {
        let told = Told::read(Bytes::from_static(br#"{"choices":[],"usage":{"prompt_tokens":7}}"#));
        assert_eq!(
            (told.prompt_tokens, told.report.and_then(|report| report.reused.count())),
            (Some(7), None)
        );
        let body = br#"{"usage":{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":0}}}"#;
        let told = Told::read(Bytes::from_static(body));
        assert_eq!(told.report.and_then(|report| report.reused.count()), Some(0));
    }
}
