//! Token ids asked of a worker: the bodies that engines understand, and their captured answers.

use crate::captured_server::{CapturedServer, Exchange, captured, documented};
use bytes::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kvroute_core::{ModelName, TokenId};
use kvroute_engine::{EngineKind, RemoteTokenizeError, RemoteTokenizer};
use kvroute_openai::{ClientRequest, Endpoint, Prompt};
use serde_json::{Value, json};

const HELLO_CHAT: [TokenId; 10] = [151_644, 872, 198, 9707, 1879, 151_645, 198, 151_644, 77_091, 198];

fn chat(body: &Value) -> Prompt {
    let request = ClientRequest::parse(Endpoint::ChatCompletions, Bytes::from(body.to_string()));
    request.unwrap().prompt
}

fn hello() -> Prompt {
    chat(&json!({"model": "m", "messages": [{"role": "user", "content": "Hello world"}]}))
}

fn texts(texts: &[&str]) -> Prompt {
    Prompt::Texts { texts: texts.iter().map(|text| (*text).to_owned()).collect(), add_special_tokens: true }
}

async fn encode(
    server: &CapturedServer,
    engine: EngineKind,
    prompt: &Prompt,
) -> Result<Vec<Vec<TokenId>>, RemoteTokenizeError> {
    let client = Client::builder(TokioExecutor::new()).build(kvroute_engine::Connector::default());
    RemoteTokenizer::new(&client, &server.url, engine).encode(&ModelName::new("tiny-qwen3"), prompt).await
}

/// A captured answer for whatever body: ours has more fields than the captured request.
fn answering(path: &str, answer: &str) -> Exchange {
    documented(&format!("POST {path}"), None, "200 OK", answer)
}

#[tokio::test]
async fn vllm_renders_and_tokenizes_a_chat_in_one_call() {
    let answer = r#"{"count":10,"max_model_len":2048,"tokens":[151644,872,198,9707,1879,151645,198,151644,77091,198],"token_strs":null}"#;
    let server = CapturedServer::start(vec![answering("/tokenize", answer)]).await;
    assert_eq!(encode(&server, EngineKind::Vllm, &hello()).await.unwrap(), [HELLO_CHAT]);
    assert_eq!(
        server.posted("/tokenize"),
        [json!({
            "model": "tiny-qwen3", "messages": [{"role": "user", "content": "Hello world"}],
            "add_generation_prompt": true, "continue_final_message": false, "add_special_tokens": false,
        })]
    );
}

#[tokio::test]
async fn everything_that_the_template_sees_is_passed_on() {
    let server = CapturedServer::start(vec![answering("/tokenize", r#"{"tokens":[1]}"#)]).await;
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"z": 1e3, "a": 2}}}]);
    let prompt = chat(&json!({
        "messages": [{"role": "assistant", "content": "so far"}], "tools": tools, "documents": [{"text": "d"}],
        "chat_template": "{{ x }}", "chat_template_kwargs": {"enable_thinking": false, "reasoning_effort": "high"},
        "reasoning_effort": "low", "add_generation_prompt": false, "continue_final_message": true,
        "add_special_tokens": true,
    }));
    // SGLang refuses to continue a message unless both words are said.
    for (engine, opens_turn) in [(EngineKind::Vllm, false), (EngineKind::Sglang, true)] {
        encode(&server, engine, &prompt).await.unwrap();
        assert_eq!(
            server.posted("/tokenize").last(),
            Some(&json!({
                "model": "tiny-qwen3", "messages": [{"role": "assistant", "content": "so far"}], "tools": tools,
                "add_generation_prompt": opens_turn, "continue_final_message": true, "add_special_tokens": true,
                "chat_template": "{{ x }}", "chat_template_kwargs": {
                    "documents": [{"text": "d"}], "reasoning_effort": "high", "enable_thinking": false,
                },
            }))
        );
    }
}

#[tokio::test]
async fn text_is_tokenized_prompt_by_prompt() {
    let mut exchanges = vec![];
    for (text, answer) in [("Hello world", "[9707,1879]"), ("b", "[65]")] {
        let body = json!({"model": "tiny-qwen3", "prompt": text, "add_special_tokens": true});
        exchanges.push(documented(
            "POST /tokenize",
            Some(body),
            "200 OK",
            &format!("{{\"tokens\":{answer}}}"),
        ));
    }
    let server = CapturedServer::start(exchanges).await;
    for engine in [EngineKind::Vllm, EngineKind::Sglang] {
        let ids = encode(&server, engine, &texts(&["Hello world", "b"])).await.unwrap();
        assert_eq!(ids, [vec![9707, 1879], vec![65]]);
    }
}

#[tokio::test]
async fn captured_answers_of_each_engine_are_read() {
    let bodies = [
        ("vllm", json!({"model": "tiny-qwen3", "prompt": "Hello world", "return_token_strs": true})),
        ("sglang", json!({"model": "tiny-qwen3", "prompt": "Hello world"})),
    ];
    for (engine, body) in bodies {
        let answer =
            captured(engine).into_iter().find(|exchange| exchange.is("POST /tokenize", &body)).unwrap();
        let server = CapturedServer::start(vec![answer.for_any_body()]).await;
        let kind = if engine == "vllm" { EngineKind::Vllm } else { EngineKind::Sglang };
        assert_eq!(encode(&server, kind, &texts(&["Hello world"])).await.unwrap(), [[9707, 1879]]);
    }
}

#[tokio::test]
async fn llamacpp_renders_first_and_tokenizes_then() {
    let apply = json!({"messages": [{"role": "user", "content": "Hello world"}]});
    let apply = captured("llamacpp").into_iter().find(|exchange| exchange.is("POST /apply-template", &apply));
    let rendered = "<|im_start|>user\nHello world<|im_end|>\n<|im_start|>assistant\n";
    let body = json!({"content": rendered, "add_special": true, "parse_special": true});
    let answer = json!({"tokens": HELLO_CHAT}).to_string();
    let tokenize = documented("POST /tokenize", Some(body), "200 OK", &answer);
    let server = CapturedServer::start(vec![apply.unwrap().for_any_body(), tokenize]).await;
    assert_eq!(encode(&server, EngineKind::LlamaCpp, &hello()).await.unwrap(), [HELLO_CHAT]);
}

#[tokio::test]
async fn tensorrt_llm_tokenizes_text_only() {
    let server =
        CapturedServer::start(vec![answering("/_internal/tokenize", r#"{"count":1,"tokens":[5]}"#)]).await;
    assert_eq!(encode(&server, EngineKind::TensorRtLlm, &texts(&["x"])).await.unwrap(), [[5]]);
    assert_eq!(server.posted("/_internal/tokenize"), [json!({"prompt": "x"})]);
    let message = encode(&server, EngineKind::TensorRtLlm, &hello()).await.unwrap_err().to_string();
    assert_eq!(message, "tensorrt-llm cannot tokenize a chat: give the pool a tokenizer folder");
}

#[tokio::test]
async fn ids_need_no_call() {
    let server = CapturedServer::start(vec![]).await;
    let lists = vec![vec![1, 2], vec![3]];
    assert_eq!(encode(&server, EngineKind::OpenAi, &Prompt::TokenLists(lists.clone())).await.unwrap(), lists);
}

#[tokio::test]
async fn a_refusal_and_a_strange_answer_are_named() {
    let refusal = documented("POST /tokenize", None, "400 Bad Request", r#"{"error":"template"}"#);
    let server = CapturedServer::start(vec![refusal]).await;
    let message = encode(&server, EngineKind::Vllm, &hello()).await.unwrap_err().to_string();
    assert_eq!(message, r#"/tokenize answers 400: {"error":"template"}"#);

    let server = CapturedServer::start(vec![answering("/tokenize", r#"{"tokens":[-1]}"#)]).await;
    let message = encode(&server, EngineKind::Vllm, &hello()).await.unwrap_err().to_string();
    assert!(message.starts_with("/tokenize answers something else than was asked"), "{message}");
}
