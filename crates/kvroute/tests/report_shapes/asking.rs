//! The same question in the words of every endpoint, and what was counted of it.

use kvroute_openai::Endpoint;
use kvroute_testkit::{Answer, Exposition, Fleet};
use serde_json::{Value, json};

/// One way to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) endpoint: Endpoint,
    pub(crate) stream: bool,
}

/// More than a few blocks of 16 tokens.
pub(crate) const QUESTION: &str = "Why is the sky blue, and why is the sea blue? Tell it in simple words, with an \
    example for each, and say how sure you are of it. Then tell me what color the sky has in the evening, and why the \
    light of the sun is yellow when it stands high and red when it stands low above the water.";

const TOKENS: u32 = 4;

// === impl Shape ===

impl Shape {
    /// Every endpoint that generates, whole and streamed.
    pub(crate) fn all() -> Vec<Self> {
        let both = |endpoint| [false, true].map(|stream| Self { endpoint, stream });
        Endpoint::GENERATING.into_iter().flat_map(both).collect()
    }

    /// Whether the router knows the prompt's length.
    pub(crate) const fn is_counted(self) -> bool {
        self.endpoint.has_stream_options()
    }

    /// Asks something; a stream that tells its usage only when asked is asked for it.
    pub(crate) fn asks(self, text: &str) -> Value {
        let mut body = match self.endpoint {
            Endpoint::ChatCompletions => {
                json!({"messages": [{"role": "user", "content": text}], "max_tokens": TOKENS})
            }
            Endpoint::Completions => json!({"prompt": text, "max_tokens": TOKENS}),
            Endpoint::Responses => json!({"input": text, "max_output_tokens": TOKENS}),
            _ => json!({"messages": [{"role": "user", "content": text}], "max_tokens": TOKENS}),
        };
        body["model"] = json!("sim");
        body["stream"] = json!(self.stream);
        if self.stream && self.endpoint.has_stream_options() {
            body["stream_options"] = json!({"include_usage": true});
        }
        body
    }

    /// Sends it to the router and reads the answer to its end.
    pub(crate) async fn ask(self, fleet: &Fleet, text: &str) -> Answer {
        let answer = fleet.client.post(&fleet.data(self.endpoint.path()), &self.asks(text)).await;
        assert_eq!(answer.status, 200, "{self:?}: {}", answer.text());
        answer
    }
}

/// The JSON of every part of an answer: its body, or the data of its events.
pub(crate) fn parts(answer: &Answer) -> Vec<Value> {
    let text = answer.text();
    if answer.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        return vec![answer.json()];
    }
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error} in {data}"))).collect()
}

/// Attempts with this outcome of their report.
pub(crate) fn outcomes(scrape: &Exposition, outcome: &str) -> u64 {
    let reports = "kvroute_router_reuse_reports_total";
    scrape.sum(reports, &[("outcome", outcome)]).map_or(0, |count| count as u64)
}

/// F4.
pub(crate) fn reused(scrape: &Exposition) -> u64 {
    scrape.count("dynamo_component_router_kv_worker_reused_tokens_total", &[])
}

pub(crate) fn reported_input(scrape: &Exposition) -> u64 {
    scrape.count("kvroute_router_reuse_reported_input_tokens_total", &[])
}
