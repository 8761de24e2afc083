//! The reader against what vLLM, SGLang and llama.cpp really sent.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a broken capture must fail the test")]

use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use kvroute_core::{Figure, ReportSource, TokenId, WorkerReport};
use kvroute_openai::{
    BodyScan, ClientRequest, Endpoint, Observation, StreamScanner, TokenIds, Unasked, UpstreamEdits,
    UsageChunk,
};
use serde_json::Value;

/// One exchange with an inference endpoint that the engine answered with 200.
struct Exchange {
    name: String,
    request: String,
    response: String,
    is_stream: bool,
    endpoint: Endpoint,
}

fn lines(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(file);
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn endpoint_of(path: &str) -> Option<Endpoint> {
    Endpoint::ALL.into_iter().find(|endpoint| endpoint.path() == path)
}

fn exchanges(file: &str) -> Vec<(u64, Exchange)> {
    let read = |line: &Value| {
        let (head, body) = line["request"].as_str().unwrap().split_once("\r\n\r\n")?;
        let endpoint = endpoint_of(head.split(' ').nth(1)?)?;
        let response_head = line["response_head"].as_str().unwrap_or_default();
        let exchange = Exchange {
            name: format!("{file}: {}", line["name"]),
            request: body.to_owned(),
            response: line["response_body"].as_str()?.to_owned(),
            is_stream: response_head.to_lowercase().contains("text/event-stream"),
            endpoint,
        };
        Some((line["status"].as_u64().unwrap(), exchange))
    };
    lines(file).iter().filter_map(read).collect()
}

fn session(file: &str) -> Vec<Exchange> {
    let log = lines(file);
    let answer = |number: &Value| {
        let is_answer = |line: &&Value| line["kind"] == "response" && &line["i"] == number;
        log.iter().find(is_answer).unwrap()["body"].as_str().unwrap().to_owned()
    };
    let requests = log.iter().filter(|line| line["kind"] == "request");
    requests
        .filter_map(|line| {
            Some(Exchange {
                name: format!("{file}: {}", line["i"]),
                request: line["body"].to_string(),
                response: answer(&line["i"]),
                is_stream: line["body"]["stream"] == true,
                endpoint: endpoint_of(line["path"].as_str().unwrap())?,
            })
        })
        .collect()
}

fn answered() -> Vec<Exchange> {
    let mut all = Vec::new();
    for file in [
        "vllm/http.jsonl.gz",
        "vllm/http_kv.jsonl.gz",
        "sglang/http.jsonl.gz",
        "llamacpp/http.jsonl.gz",
        "llamacpp/streams.jsonl.gz",
    ] {
        let of_file = exchanges(file).into_iter().filter(|(status, _)| *status == 200);
        all.extend(of_file.map(|(_, exchange)| exchange));
    }
    all.extend(session("vllm/session.jsonl.gz"));
    all.extend(session("sglang/session.jsonl.gz"));
    assert!(all.len() > 200, "only {} exchanges", all.len());
    all
}

fn parse(exchange: &Exchange) -> ClientRequest {
    ClientRequest::parse(exchange.endpoint, Bytes::from(exchange.request.clone()))
        .unwrap_or_else(|error| panic!("{}: {error}", exchange.name))
}

/// Forwarded text and observations, in chunks of `size` bytes.
fn scan(mode: UsageChunk, stream: &str, size: usize) -> (String, Vec<Observation>) {
    let mut scanner = StreamScanner::new(mode);
    let mut observations = Vec::new();
    let mut forwarded = Vec::new();
    for chunk in stream.as_bytes().chunks(size) {
        forwarded.extend_from_slice(&scanner.push(&Bytes::copy_from_slice(chunk), &mut observations));
    }
    forwarded.extend_from_slice(&scanner.finish(&mut observations));
    (String::from_utf8(forwarded).unwrap(), observations)
}

fn chunks_of(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// The report as a full JSON parser finds it in the last part that has one.
fn expected_report(parts: &[Value]) -> Option<WorkerReport> {
    parts.iter().rev().find_map(|part| {
        let usage = [&part["usage"], &part["response"]["usage"], &part["message"]["usage"]];
        let usage = usage.into_iter().find(|usage| usage.is_object()).unwrap_or(&Value::Null);
        let report = |source, prompt, reused| {
            Some(WorkerReport { source, prompt: Figure::Count(prompt), reused: Figure::Count(reused) })
        };
        if let Some(cached) = usage["prompt_tokens_details"]["cached_tokens"].as_u64() {
            return report(ReportSource::Usage, usage["prompt_tokens"].as_u64().unwrap(), cached);
        }
        if let Some(cached) = usage["input_tokens_details"]["cached_tokens"].as_u64() {
            return report(ReportSource::Usage, usage["input_tokens"].as_u64().unwrap(), cached);
        }
        if let Some(read) = usage["cache_read_input_tokens"].as_u64() {
            let rest = usage["input_tokens"].as_u64().unwrap();
            let written = usage["cache_creation_input_tokens"].as_u64().unwrap_or(0);
            return report(ReportSource::AnthropicUsage, rest + read + written, read);
        }
        if let Some(cached) = part["prompt_progress"]["cache"].as_u64() {
            return report(ReportSource::Timings, part["prompt_progress"]["total"].as_u64().unwrap(), cached);
        }
        let cached = part["timings"]["cache_n"].as_u64()?;
        report(ReportSource::Timings, cached + part["timings"]["prompt_n"].as_u64().unwrap(), cached)
    })
}

fn reports(observations: &[Observation]) -> Vec<WorkerReport> {
    let report = |observation: &Observation| match observation {
        Observation::Report(report) => Some(*report),
        _ => None,
    };
    observations.iter().filter_map(report).collect()
}

fn last_report(observations: &[Observation]) -> Option<WorkerReport> {
    reports(observations).pop()
}

#[test]
fn what_an_engine_answers_is_never_refused() {
    for exchange in answered() {
        let request = parse(&exchange);
        let body: Value = serde_json::from_str(&exchange.request).unwrap();
        assert_eq!(request.model.as_deref(), body["model"].as_str(), "{}", exchange.name);
        assert_eq!(request.stream, body["stream"].as_bool().unwrap_or(false), "{}", exchange.name);
        assert_eq!(request.choices, body["n"].as_u64().unwrap_or(1) as u32, "{}", exchange.name);
        let asked = body["stream_options"]["include_usage"].as_bool().unwrap_or(false);
        assert_eq!(request.include_usage, asked, "{}", exchange.name);
        let upstream: Value = serde_json::from_slice(
            &request
                .upstream_body(UpstreamEdits { inject_usage: true, ..UpstreamEdits::default() })
                .to_bytes(),
        )
        .unwrap();
        let asks = request.stream && exchange.endpoint.has_stream_options();
        assert_eq!(upstream["stream_options"]["include_usage"] == true, asks, "{}", exchange.name);
    }
}

#[test]
fn captured_streams_pass_byte_identical_when_the_client_asked() {
    let mut streams = 0;
    for exchange in answered().iter().filter(|exchange| exchange.is_stream) {
        for size in [1, 7, 1_000_000] {
            let (forwarded, observations) = scan(UsageChunk::Forward, &exchange.response, size);
            assert_eq!(forwarded, exchange.response, "{}", exchange.name);
            let expected = expected_report(&chunks_of(&exchange.response));
            assert_eq!(last_report(&observations), expected, "{}", exchange.name);
        }
        streams += 1;
    }
    assert!(streams > 50, "only {streams} streams");
}

#[test]
fn only_the_usage_chunk_is_missing_when_the_router_asked() {
    let mut removed = 0;
    for exchange in answered().iter().filter(|exchange| exchange.is_stream) {
        let is_usage_chunk =
            |event: &&str| event.contains("\"choices\":[],") && event.contains("\"usage\":{");
        let kept: Vec<&str> =
            exchange.response.split("\n\n").filter(|event| !is_usage_chunk(event)).collect();
        removed += exchange.response.split("\n\n").count() - kept.len();
        let (forwarded, observations) = scan(UsageChunk::Withhold, &exchange.response, 100);
        assert_eq!(forwarded, kept.join("\n\n"), "{}", exchange.name);
        let expected = expected_report(&chunks_of(&exchange.response));
        assert_eq!(last_report(&observations), expected, "{}", exchange.name);
    }
    assert!(removed > 40, "only {removed} usage chunks");
}

#[test]
fn captured_whole_answers_pass_and_tell_their_reuse() {
    let mut reports = 0;
    for exchange in answered().iter().filter(|exchange| !exchange.is_stream) {
        let scan = BodyScan::read(Bytes::from(exchange.response.clone()));
        assert_eq!(scan.forward, exchange.response, "{}", exchange.name);
        let body: Value = serde_json::from_str(&exchange.response).unwrap();
        let expected = expected_report(std::slice::from_ref(&body));
        assert_eq!(last_report(&scan.observations), expected, "{}", exchange.name);
        reports += usize::from(expected.is_some());
        let completion = scan.observations.iter().find_map(|observation| match observation {
            Observation::Usage(counts) => counts.completion,
            _ => None,
        });
        let usage = &body["usage"];
        let generated = usage["completion_tokens"].as_u64().or_else(|| usage["output_tokens"].as_u64());
        assert_eq!(completion, generated, "{}", exchange.name);
    }
    assert!(reports > 100, "only {reports} reports");
}

#[test]
fn content_and_ends_are_seen_for_each_choice() {
    let is_of_choices = |exchange: &&Exchange| exchange.is_stream && exchange.endpoint.has_stream_options();
    for exchange in answered().iter().filter(is_of_choices) {
        let (_, observations) = scan(UsageChunk::Forward, &exchange.response, 1_000_000);
        let mut expected = Vec::new();
        for choice in
            chunks_of(&exchange.response).iter().flat_map(|part| part["choices"].as_array().unwrap())
        {
            let index = choice["index"].as_u64().unwrap();
            let text =
                choice["text"].as_str().or_else(|| choice["delta"]["content"].as_str()).unwrap_or_default();
            expected.extend((!text.is_empty()).then_some((index, false)));
            expected.extend(choice["finish_reason"].is_string().then_some((index, true)));
        }
        let seen: Vec<(u64, bool)> = observations
            .iter()
            .filter_map(|observation| match observation {
                Observation::Content { choice } => Some((u64::from(*choice), false)),
                Observation::Finish { choice, .. } => Some((u64::from(*choice), true)),
                _ => None,
            })
            .collect();
        assert_eq!(seen, expected, "{}", exchange.name);
        let done = observations.contains(&Observation::Done);
        assert_eq!(done, exchange.response.contains("data: [DONE]"), "{}", exchange.name);
    }
}

#[test]
fn streams_of_typed_events_tell_their_tokens_and_their_end() {
    let is_typed = |exchange: &&Exchange| exchange.is_stream && !exchange.endpoint.has_stream_options();
    let streams: Vec<_> = answered().into_iter().filter(|exchange| is_typed(&exchange)).collect();
    assert!(streams.len() >= 4, "only {} streams", streams.len());
    for exchange in &streams {
        let (_, observations) = scan(UsageChunk::Forward, &exchange.response, 11);
        let parts = chunks_of(&exchange.response);
        let is_delta = |part: &&Value| part["delta"].is_string() || part["delta"]["text"].is_string();
        let content = observations.iter().filter(|seen| matches!(seen, Observation::Content { choice: 0 }));
        assert_eq!(content.count(), parts.iter().filter(is_delta).count(), "{}", exchange.name);
        assert_eq!(observations.last(), Some(&Observation::Done), "{}", exchange.name);
        let finish = &observations[observations.len() - 2];
        assert!(matches!(finish, Observation::Finish { choice: 0, .. }), "{}", exchange.name);
    }
}

/// What is told before the answer is what is told behind it, and no chunk in between says otherwise.
#[test]
fn early_reports_say_what_the_last_one_says() {
    let mut early = [0; 2];
    for exchange in answered().iter().filter(|exchange| exchange.is_stream) {
        let (_, observations) = scan(UsageChunk::Forward, &exchange.response, 1_000);
        let first_token = observations.iter().position(|seen| matches!(seen, Observation::Content { .. }));
        let before = reports(&observations[..first_token.unwrap_or_default()]).len();
        let all = reports(&observations);
        let counts = |report: &WorkerReport| (report.prompt, report.reused);
        assert!(all.iter().all(|report| counts(report) == counts(&all[0])), "{}", exchange.name);
        early[0] += usize::from(all.len() > 1);
        early[1] += usize::from(before > 0);
    }
    assert!(
        early[0] >= 5 && early[1] >= 5,
        "streams that report more than once, and before a token: {early:?}"
    );
}

#[test]
fn what_engines_refuse_as_broken_json_is_refused_here() {
    for file in ["vllm/http.jsonl.gz", "sglang/http.jsonl.gz", "llamacpp/http.jsonl.gz"] {
        let mut refused = 0;
        for (status, exchange) in exchanges(file) {
            let is_broken = ["bad json", "empty body", "missing messages"]
                .iter()
                .any(|fault| exchange.name.contains(&format!("error {fault}")));
            if !is_broken {
                continue;
            }
            assert_eq!(status, 400, "{}", exchange.name);
            let parsed = ClientRequest::parse(exchange.endpoint, Bytes::from(exchange.request));
            assert!(parsed.is_err(), "{}", exchange.name);
            refused += 1;
        }
        assert!(refused >= 2, "{file}: {refused}");
    }
}

/// The text with `null` in the place of every list of ids.
fn without_lists(text: &str) -> String {
    let mut rest = text;
    let mut left = String::new();
    while let Some(at) = rest.find("token_ids\":[") {
        let list = at + "token_ids\":".len();
        left += &rest[..list];
        left += "null";
        rest = &rest[list + rest[list..].find(']').unwrap() + 1..];
    }
    left + rest
}

/// What a full JSON parser finds in the choices.
fn listed_ids(parts: &[Value]) -> Vec<TokenId> {
    let choices = parts.iter().filter_map(|part| part["choices"].as_array()).flatten();
    let lists = choices.filter_map(|choice| choice["token_ids"].as_array());
    lists.flatten().map(|id| id.as_u64().unwrap() as TokenId).collect()
}

fn read_ids(observations: &[Observation], token_ids: &[TokenId]) -> Vec<TokenId> {
    let spans = observations.iter().filter_map(|observation| match observation {
        Observation::Generated { choice: 0, ids } => Some(ids.unwrap()),
        _ => None,
    });
    spans.flat_map(|span| span.of(token_ids)).copied().collect()
}

#[test]
fn ids_that_the_router_asked_for_are_read_and_become_what_they_are_unasked() {
    let mut asked = 0;
    for exchange in answered() {
        let has_asked = parse(&exchange).return_token_ids;
        asked += usize::from(has_asked);
        let expected = if has_asked { without_lists(&exchange.response) } else { exchange.response.clone() };
        let (forwarded, ids, told) = if exchange.is_stream {
            let mut scanner =
                StreamScanner::with_token_ids(UsageChunk::Forward, TokenIds::Withhold(Unasked::Null));
            let mut observations = Vec::new();
            let chunk = Bytes::from(exchange.response.clone());
            let forwarded = scanner.push(&chunk, &mut observations);
            let ids = read_ids(&observations, scanner.token_ids());
            (forwarded, ids, listed_ids(&chunks_of(&exchange.response)))
        } else {
            let scan = BodyScan::read_with(
                Bytes::from(exchange.response.clone()),
                TokenIds::Withhold(Unasked::Null),
            );
            let body: Value = serde_json::from_str(&exchange.response).unwrap();
            (scan.forward, read_ids(&scan.observations, &scan.token_ids), listed_ids(&[body]))
        };
        assert_eq!(forwarded, expected, "{}", exchange.name);
        assert_eq!((ids.is_empty(), ids), (!has_asked, told), "{}", exchange.name);
    }
    assert_eq!(asked, 2, "a whole answer and a stream");
}
