//! What a request in two parts looks like to its client, its engines and the books.

use kvroute_core::Tokens;
use serde_json::json;

use super::split::{CHAT, COMPLETIONS, FLAVOURS, MODEL, PROMPT, Split, chat, completion, usage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_is_computed_by_one_engine_and_answered_by_another() {
    for flavour in FLAVOURS {
        let split = Split::start(flavour).await;
        let stream = json!({"stream": true, "stream_options": {"include_usage": true}});
        let mut asked = 0;
        for seed in [1, 1, 2, 2] {
            for members in [json!({}), stream.clone()] {
                for (path, body) in [(COMPLETIONS, completion(seed, &members)), (CHAT, chat(seed, &members))]
                {
                    let answer = split.ask(path, &body).await;
                    assert_eq!(answer.status, 200, "{flavour}: {}", answer.text());
                    assert_eq!(usage(&answer)["completion_tokens"], 8, "{flavour} {path} {members}");
                    asked += 1;
                    if asked == 1 {
                        split.until_known().await;
                    }
                }
            }
        }
        let books = split.books().await;
        let counted = ["prefill", "decode", "aggregated"].map(|phase| books.attempts(phase, "completed"));
        assert_eq!(counted, [asked, asked, 0], "{flavour}");
        assert_eq!(books.requests("completed"), asked, "{flavour}");
        assert_eq!(
            books.reports("decode", "excluded"),
            asked,
            "{flavour}: a decode worker's count is no reuse"
        );
        assert_eq!(books.reports("prefill", "reported"), asked, "{flavour}");
        let reused: u64 = split.prefills().iter().map(|engine| engine.stats().reused_tokens).sum();
        assert_eq!((books.reused("prefill"), books.reused("decode")), (reused, 0), "{flavour}");
        assert!(books.selected() > 0 && reused > 0, "{flavour}: what was computed before is found again");
        for engine in split.decodes() {
            let stats = engine.stats();
            assert_eq!(stats.computed_tokens, 0, "{flavour}: a decode engine computed a prompt");
        }
        let transferred: u64 = split.decodes().iter().map(|engine| engine.stats().transferred_tokens).sum();
        assert!(transferred > 0, "{flavour}");
        assert_eq!(books.stranded(), 0, "{flavour}");
        split.fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_told_what_the_prefill_had_cached_and_not_what_was_handed_over() {
    for flavour in FLAVOURS {
        let split = Split::start(flavour).await;
        for (members, is_known) in [
            (json!({}), false),
            (json!({}), true),
            (json!({"stream": true, "stream_options": {"include_usage": true}}), true),
        ] {
            let usage = usage(&split.ask(COMPLETIONS, &completion(1, &members)).await);
            let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64();
            assert_eq!(cached, Some(if is_known { 320 } else { 0 }), "{flavour} {members}: {usage}");
            assert_eq!(usage["prompt_tokens"], PROMPT, "{flavour}");
            if !is_known {
                split.until_known().await;
            }
        }
        split.fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_client_sends_reaches_the_decode_engine_and_its_stream_comes_back_untouched() {
    for flavour in FLAVOURS {
        let split = Split::start(flavour).await;
        let answer = split.ask(CHAT, &chat(3, &json!({"stream": true}))).await;
        let text = answer.text();
        assert!(text.ends_with("data: [DONE]\n\n"), "{flavour}: {text}");
        assert!(!text.contains("usage\":{"), "{flavour}: nobody asked for it: {text}");
        assert!(!text.contains("remote_engine_id") && !text.contains("bootstrap"), "{flavour}: {text}");
        split.fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_that_is_cached_where_it_is_answered_is_not_handed_over() {
    let limit = |pool: &mut kvroute_router::PoolConfig| pool.local_prefill = Tokens::new(32);
    let split = Split::start_with(kvroute_sim::Flavour::Vllm, |_| {}, limit).await;
    assert_eq!(split.ask(COMPLETIONS, &completion(1, &json!({}))).await.status, 200);
    split.books().await;
    let before = split.books().await;
    assert_eq!(before.fallbacks("cached"), 0);
    // What was transferred is cached there, and its events say so at some point.
    while split.books().await.fallbacks("cached") == 0 {
        assert_eq!(split.ask(COMPLETIONS, &completion(1, &json!({}))).await.status, 200);
    }
    let books = split.books().await;
    assert_eq!(books.attempts("aggregated", "completed"), books.fallbacks("cached"));
    split.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trusted_caller_is_told_both_workers() {
    let split = Split::start(kvroute_sim::Flavour::Vllm).await;
    let answer = split.ask(COMPLETIONS, &completion(1, &json!({}))).await;
    let named = |engine: &kvroute_sim::SimEngine| format!("{}/0", engine.address());
    let decodes: Vec<_> = split.decodes().iter().map(named).collect();
    let prefills: Vec<_> = split.prefills().iter().map(named).collect();
    assert!(decodes.iter().any(|name| answer.header("x-kvroute-worker") == Some(name)));
    assert!(prefills.iter().any(|name| answer.header("x-kvroute-prefill-worker") == Some(name)));
    assert_eq!(answer.header("x-kvroute-predicted-cached-tokens"), Some("0"));
    let name = prefills[1].clone();
    let pinned = [("x-kvroute-worker", name.as_str())];
    let url = split.fleet.data(COMPLETIONS);
    let answer = split.fleet.client.post_with(&url, &pinned, &completion(2, &json!({}))).await;
    assert_eq!(answer.header("x-kvroute-prefill-worker"), Some(&*name), "{}", answer.text());
    let pinned = [("x-kvroute-worker", decodes[0].as_str())];
    let answer = split.fleet.client.post_with(&url, &pinned, &completion(3, &json!({"model": MODEL}))).await;
    assert_eq!(answer.header("x-kvroute-worker"), Some(&*decodes[0]));
    assert_eq!(answer.header("x-kvroute-prefill-worker"), None, "it was named, so it does all of it");
    assert_eq!(split.books().await.attempts("aggregated", "completed"), 1);
    split.fleet.stop().await;
}
