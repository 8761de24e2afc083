//! Token ids in answers, and the blocks that they make.

use hyper::StatusCode;
use kvroute_core::BlockSize;
use kvroute_sim::{Faults, SimConfig, SimEngine};
use serde_json::{Value, json};

use crate::http::{CHAT, COMPLETIONS, cached_tokens, post, start};

const SIZE: usize = 4;

async fn engine(faults: Faults) -> SimEngine {
    let block_size = BlockSize::new(SIZE as u32).unwrap();
    start(SimConfig { block_size, faults, ..SimConfig::default() }).await
}

fn ids(list: &Value) -> Vec<u32> {
    serde_json::from_value(list.clone()).unwrap()
}

/// The chunks of a stream, without its end mark.
async fn chunks(engine: &SimEngine, path: &str, body: &Value) -> Vec<Value> {
    let events = post(engine, path, body).await.events();
    let (done, chunks) = events.split_last().unwrap();
    assert_eq!(done, "[DONE]");
    chunks.iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect()
}

/// The ids of one choice, chunk after chunk.
fn ids_of(chunks: &[Value], choice: u64) -> Vec<u32> {
    let choices = chunks.iter().flat_map(|chunk| chunk["choices"].as_array().unwrap());
    let own = choices.filter(|part| part["index"] == choice && part["token_ids"].is_array());
    own.flat_map(|part| ids(&part["token_ids"])).collect()
}

/// What an engine reuses of a prompt and an answer that are sent back: every block that ends before the newest token.
#[tokio::test]
async fn prompt_and_generated_ids_sent_back_are_reused_up_to_the_newest_token() {
    for tokens in 1..=9 {
        for stream in [false, true] {
            let engine = engine(Faults::default()).await;
            let prompt: Vec<u32> = (0..6).collect();
            let body = json!({
                "prompt": prompt, "max_tokens": tokens, "n": 2, "return_token_ids": true, "stream": stream,
            });
            let answers = match stream {
                true => {
                    let chunks = chunks(&engine, COMPLETIONS, &body).await;
                    [ids_of(&chunks, 0), ids_of(&chunks, 1)]
                }
                false => {
                    let answer = post(&engine, COMPLETIONS, &body).await.json();
                    [0, 1].map(|choice| ids(&answer["choices"][choice]["token_ids"]))
                }
            };
            for answer in answers {
                assert_eq!(answer.len(), tokens);
                let next = [&prompt[..], &answer, &[7; SIZE]].concat();
                let next = json!({"prompt": next, "max_tokens": 1});
                let computed = prompt.len() + tokens - 1;
                let reused = cached_tokens(&post(&engine, COMPLETIONS, &next).await.json());
                assert_eq!(reused as usize, computed / SIZE * SIZE, "{tokens} tokens, streamed: {stream}");
            }
            engine.stop().await;
        }
    }
}

#[tokio::test]
async fn a_swallowed_token_makes_a_chunk_only_where_ids_are_asked_for() {
    let engine = engine(Faults { swallow_every: 3, ..Faults::default() }).await;
    let body = |asks: bool| {
        json!({
            "messages": [{"role": "user", "content": "hello"}], "max_tokens": 6, "stream": true,
            "return_token_ids": asks,
        })
    };
    let asked = chunks(&engine, CHAT, &body(true)).await;
    let quiet = chunks(&engine, CHAT, &body(false)).await;
    assert_eq!((asked.len(), quiet.len()), (1 + 6, 1 + 5), "the last one tells the end");
    assert_eq!(asked[3]["choices"][0]["delta"], json!({}));
    assert_eq!(asked[6]["choices"][0]["delta"], json!({}));
    assert_eq!(asked[6]["choices"][0]["finish_reason"], "length");
    assert_eq!(ids_of(&asked, 0).len(), 6);
    let mut whole = body(true);
    whole["stream"] = false.into();
    let whole = post(&engine, CHAT, &whole).await.json();
    assert_eq!(ids(&whole["choices"][0]["token_ids"]), ids_of(&asked, 0));
    let told = asked.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    assert_eq!(whole["choices"][0]["message"]["content"], told.collect::<String>());
    engine.stop().await;
}

#[tokio::test]
async fn ids_can_stand_in_a_private_report() {
    let engine = engine(Faults { private_token_ids: true, ..Faults::default() }).await;
    for path in [CHAT, COMPLETIONS] {
        let mut body = json!({"max_tokens": 3, "return_token_ids": true, "stream": true});
        match path {
            CHAT => body["messages"] = json!([{"role": "user", "content": "hello"}]),
            _ => body["prompt"] = json!([1, 2, 3]),
        }
        let streamed = chunks(&engine, path, &body).await;
        let private = streamed.iter().filter(|chunk| chunk["engine_data"].is_object());
        let private: Vec<_> = private.flat_map(|chunk| ids(&chunk["engine_data"]["token_ids"])).collect();
        assert_eq!(private, ids_of(&streamed, 0), "{path}");
        body["stream"] = false.into();
        let whole = post(&engine, path, &body).await.json();
        assert_eq!(whole["engine_data"], json!({"token_ids": private}), "{path}");
        body["n"] = 2.into();
        assert_eq!(post(&engine, path, &body).await.json()["engine_data"], Value::Null, "{path}");
    }
    engine.stop().await;
}

#[tokio::test]
async fn return_token_ids_can_be_a_field_that_is_not_known() {
    let engine = engine(Faults { refuse_token_ids: true, ..Faults::default() }).await;
    let answer = post(&engine, COMPLETIONS, &json!({"prompt": [1], "return_token_ids": false})).await;
    let param = &answer.json()["error"]["param"];
    assert_eq!((answer.status, param), (StatusCode::BAD_REQUEST, &json!("body.return_token_ids")));
    assert_eq!(post(&engine, COMPLETIONS, &json!({"prompt": [1]})).await.status, StatusCode::OK);
    engine.stop().await;
}
