use serde_json::{Value, json};

use super::*;

fn candidate(worker: &str, cached: u64, prefill: f64, decode: f64) -> Value {
    json!({
        "worker_id": worker, "dp_rank": 0, "cached_tokens": cached, "credit_withheld": false,
        "expected_tokens": 0, "recent_tokens": 0, "active_requests": 2, "prefill_tokens": 0, "decode_blocks": 0,
        "cost": prefill + decode, "excluded": null,
        "terms": {"backlog": 3.5, "request": 64.0, "credit": cached as f64 / 16.0, "prefill": prefill, "decode": decode},
    })
}

fn taken() -> Value {
    let mut excluded = candidate("w4:1", 768, 0.0, 0.0);
    excluded["cost"] = Value::Null;
    excluded["terms"] = json!({});
    excluded["excluded"] = json!("already_tried");
    json!({
        "id": "d-0f-7", "request_id": "req-1", "at": 1_000_000, "model": "m", "policy": "kv",
        "reason": "lowest_cost", "worker_id": "w1:1", "dp_rank": 0, "input_tokens": 1024,
        "best_cached_tokens": 768, "best_eligible_cached_tokens": 512, "selected_cached_tokens": 0,
        "eligibility_reason": "already_tried", "placement_reason": "load",
        "waited_seconds": 1.25, "block_size": 16, "eligible": 3, "left_out": 1,
        "candidates": [
            candidate("w1:1", 0, 67.5, 2.0), candidate("worker-2:8000", 512, 71.25, 1234.0), excluded,
        ],
        "shadows": [
            {"policy": "round-robin", "worker_id": "w3:1", "dp_rank": 1, "selected_cached_tokens": 16},
            {"policy": "direct", "worker_id": null, "dp_rank": null, "selected_cached_tokens": null},
        ],
        "report": {"outcome": "completed", "dispatched": true, "report": "reported", "input_tokens": 1024,
            "reused_tokens": 496, "lost_tokens": 16},
        "what a later router adds": {"does": "no harm"},
    })
}

fn rendered(decision: Value) -> String {
    render(&serde_json::from_value(decision).unwrap(), 1_009_000)
}

#[test]
fn a_decision_is_told_in_words_and_its_candidates_as_a_table() {
    let expected = "\
picked w1:1/0 of 3 (1 excluded): lowest cost
model m, policy kv, 1,024 prompt tokens, after 1.250 s in the queue
decision d-0f-7 for request req-1, 9 s ago

  worker           cached  active backlog request  credit prefill  decode    cost excluded
> w1:1/0                0       2    3.50   64.00    0.00   67.50    2.00   69.50
  worker-2:8000/0     512       2    3.50   64.00   32.00   71.25 1234.00 1305.25
  w4:1/0              768       2       -       -       -       -       -       - already tried
and 1 more that are not kept
cost = prefill + decode + requests + recent, in blocks of 16 tokens

cached prefix: 0 tokens on the picked worker, 512 on the best that could be picked, 768 on any
lost by the decision: 512 tokens (load) on worker-2:8000/0, which would have cost 1305.25
out of reach: 256 tokens (already tried) on w4:1/0
round-robin would have picked w3:1/1, with 16 tokens cached
direct would have found no worker
report: completed, valid report: the engine reused 496 of 1,024 tokens, 16 less than were cached
";
    assert_eq!(rendered(taken()), expected);
}

#[test]
fn advice_says_would_and_has_neither_an_id_nor_a_report() {
    let mut advice = taken();
    advice["id"] = Value::Null;
    advice["report"] = Value::Null;
    advice["selected_cached_tokens"] = json!(512);
    let text = rendered(advice);
    assert!(text.starts_with("would pick w1:1/0 of 3"), "{text}");
    assert!(text.contains("\nlost by the decision: nothing\n"), "{text}");
    assert!(!text.contains("decision d-") && !text.contains("report:"), "{text}");
}

#[test]
fn what_does_not_exist_is_no_zero() {
    let mut bare = taken();
    for name in
        ["input_tokens", "best_cached_tokens", "best_eligible_cached_tokens", "selected_cached_tokens"]
    {
        bare[name] = Value::Null;
    }
    bare["reason"] = json!("turn");
    bare["candidates"] = json!([candidate("w1:1", 0, 0.0, 0.0)]);
    bare["candidates"][0]["cached_tokens"] = Value::Null;
    bare["candidates"][0]["cost"] = Value::Null;
    bare["candidates"][0]["terms"] = json!({});
    bare["left_out"] = json!(2);
    bare["shadows"] = json!([]);
    bare["report"] = json!({"outcome": "failed", "dispatched": false, "report": "unfinished"});
    let expected = "\
picked w1:1/0 of 3: turn
model m, policy kv, prompt not counted, after 1.250 s in the queue
decision d-0f-7 for request req-1, 9 s ago

  worker  cached  active excluded
> w1:1/0       -       2
and 2 more that are not kept

cached prefix: not looked up
report: failed, no report before the end
";
    assert_eq!(rendered(bare), expected);
}

#[test]
fn withheld_credit_is_marked_and_explained() {
    let mut doubted = taken();
    doubted["candidates"][1]["credit_withheld"] = json!(true);
    let text = rendered(doubted);
    assert!(text.contains(" 512* "), "{text}");
    assert!(text.contains("\n* not credited: the source of this knowledge is in doubt\n"), "{text}");
}

#[test]
fn a_request_that_still_runs_has_no_report_yet() {
    let mut running = taken();
    running["report"] = Value::Null;
    assert!(rendered(running).ends_with("report: none yet, the request is still running\n"));
}
