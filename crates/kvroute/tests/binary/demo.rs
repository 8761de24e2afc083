//! `kvroute demo`: the promise of the program, measured on its own result.

use std::path::Path;

use serde_json::Value;

use super::process::{Running, http, run, stdout};

/// The runs of a demo that prints JSON and nothing else.
fn runs(arguments: &[&str]) -> Vec<Value> {
    let words: Vec<&str> = ["demo", "--once", "--json"].iter().chain(arguments).copied().collect();
    let result: Value = serde_json::from_str(&stdout(&words)).unwrap();
    result["runs"].as_array().unwrap().clone()
}

fn tokens(run: &Value, key: &str) -> u64 {
    run[key].as_u64().unwrap_or_else(|| panic!("{key} of {run}"))
}

fn reused_share(run: &Value) -> f64 {
    tokens(run, "reused_tokens") as f64 / tokens(run, "input_tokens") as f64
}

/// Reasons of the stages that exist, in the order of the ledger.
const REASONS: [(&str, &[&str]); 5] = [
    ("new", &["partial_block", "unseen"]),
    (
        "residency",
        &["worker_gone", "cleared", "index_budget", "forgotten", "evicted", "source_blind", "unknown"],
    ),
    ("eligibility", &["pinned", "affinity", "draining", "unhealthy", "adapter", "filtered", "already_tried"]),
    (
        "placement",
        &["policy", "sampling", "tie", "load", "request_count", "recent", "tier_weight", "expected", "trust"],
    ),
    ("delivery", &["last_block", "stale_index", "unexplained"]),
];

fn lost(run: &Value, stage: &str) -> u64 {
    let reasons = run["lost"][stage].as_object().unwrap_or_else(|| panic!("no {stage} in {run}"));
    reasons.values().map(|tokens| tokens.as_u64().unwrap()).sum()
}

/// Every request of the run was reported on: each stage is the one before it, less every lost token with its reason, and
/// what came on top.
fn assert_closes(run: &Value) {
    for (stage, reasons) in REASONS {
        for losses in [&run["lost"][stage], &run["lost_prefill_seconds"][stage]] {
            let told = losses.as_object().unwrap_or_else(|| panic!("no {stage} in {run}"));
            assert_eq!(told.keys().collect::<Vec<_>>(), reasons, "{stage}");
        }
    }
    let [input, history, anywhere, best, selected, reused] = [
        "ledger_input_tokens",
        "history_cached_tokens",
        "best_cached_tokens",
        "best_eligible_cached_tokens",
        "selected_cached_tokens",
        "reused_tokens",
    ]
    .map(|key| tokens(run, key));
    assert_eq!(input, tokens(run, "input_tokens"), "{run}");
    assert_eq!(input, lost(run, "new") + history, "{run}");
    let beyond = run["surplus"]["residency"].as_u64().unwrap();
    assert_eq!(history + beyond, lost(run, "residency") + anywhere, "{run}");
    assert_eq!(anywhere, lost(run, "eligibility") + best, "{run}");
    assert_eq!(best, lost(run, "placement") + selected, "{run}");
    let surplus = run["surplus"]["delivery"].as_u64().unwrap();
    assert_eq!(selected + surplus, reused + lost(run, "delivery"), "{run}");
}

#[test]
fn kv_reuses_at_least_twice_as_much_as_round_robin_and_the_engines_agree() {
    let runs = runs(&[]);
    let policies: Vec<&str> = runs.iter().map(|run| run["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["round-robin", "kv"]);
    for run in &runs {
        assert_eq!(tokens(run, "errors"), 0, "{run}");
        assert_eq!(tokens(run, "reused_tokens"), tokens(run, "engine_reused_tokens"), "{run}");
        assert_eq!(tokens(run, "reported_input_tokens"), tokens(run, "input_tokens"), "{run}");
        let (best, selected) = ("best_eligible_cached_tokens", "selected_cached_tokens");
        assert!(tokens(run, selected) <= tokens(run, best), "{run}");
        assert!(tokens(run, best) <= tokens(run, "input_tokens"), "{run}");
        assert_closes(run);
        assert_eq!(lost(run, "eligibility"), 0, "every worker was well: {run}");
    }
    let [by_turns, by_cache] = [&runs[0], &runs[1]].map(|run| tokens(&run["lost"]["placement"], "policy"));
    assert!(by_turns > 0 && by_cache == 0, "a policy without caches gives them up, and only that: {runs:?}");
    assert!(reused_share(&runs[1]) >= 2.0 * reused_share(&runs[0]), "{runs:?}");
}

#[test]
fn the_json_has_every_field_and_stages_that_do_not_exist_are_null() {
    let runs = runs(&[
        "--requests",
        "8",
        "--workers",
        "2",
        "--policy",
        "random",
        "--kv-blocks",
        "700",
        "--seed",
        "5",
    ]);
    let [run] = runs.as_slice() else { panic!("{runs:?}") };
    let keys: Vec<&str> = run.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "policy",
            "workers",
            "kv_blocks",
            "block_size",
            "seed",
            "repeats",
            "requests",
            "errors",
            "input_tokens",
            "history_cached_tokens",
            "best_cached_tokens",
            "best_eligible_cached_tokens",
            "selected_cached_tokens",
            "reused_tokens",
            "reported_input_tokens",
            "ledger_input_tokens",
            "engine_reused_tokens",
            "lost",
            "lost_prefill_seconds",
            "surplus",
            "ttft_seconds",
        ]
    );
    for (key, value) in [("workers", 2), ("kv_blocks", 700), ("block_size", 16), ("seed", 5), ("requests", 8)]
    {
        assert_eq!(tokens(run, key), value, "{key}");
    }
    for losses in ["lost", "lost_prefill_seconds"] {
        assert_eq!(run[losses].get("unavailable"), Some(&Value::Null), "the history splits it in two");
    }
    assert_closes(run);
    let times = &run["ttft_seconds"];
    assert!(times["p50"].as_f64() <= times["p90"].as_f64() && times["p90"].as_f64() <= times["p99"].as_f64());
}

/// The first 1,000 requests of Mooncake's conversation trace, whose lengths add up to this.
const TRACE_INPUT: u64 = 13_732_944;

#[test]
fn a_recorded_trace_runs_through_and_reuses_what_it_recorded() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../kvroute-replay/fixtures/mooncake-conversation-1000.jsonl.gz");
    let runs = runs(&["--trace", trace.to_str().unwrap(), "--speed", "max", "--policy", "kv"]);
    let run = &runs[0];
    assert_eq!((tokens(run, "requests"), tokens(run, "errors")), (1000, 0), "{run}");
    assert_eq!((tokens(run, "block_size"), tokens(run, "kv_blocks")), (512, 8000));
    assert_eq!(tokens(run, "input_tokens"), TRACE_INPUT);
    assert_eq!(tokens(run, "reused_tokens"), tokens(run, "engine_reused_tokens"));
    assert!(reused_share(run) > 0.05, "{run}");
}

#[test]
fn a_trace_at_a_pace_takes_its_recorded_gaps() {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let line = |at: u64| {
        format!("{{\"timestamp\":{at},\"input_length\":600,\"output_length\":3,\"hash_ids\":[1,{at}]}}\n")
    };
    std::fs::write(trace.path(), [0, 20_000, 40_000].map(line).concat()).unwrap();
    let runs = runs(&["--trace", trace.path().to_str().unwrap(), "--speed", "40", "--workers", "2"]);
    for run in &runs {
        assert_eq!(tokens(run, "input_tokens"), 1800);
        assert_eq!(tokens(run, "reused_tokens"), tokens(run, "engine_reused_tokens"));
    }
    assert_eq!([&runs[0], &runs[1]].map(|run| tokens(run, "reused_tokens")), [512, 1024]);
}

#[test]
fn the_table_goes_to_standard_output_and_the_way_there_to_standard_error() {
    let output = run(&["demo", "--once", "--requests", "6", "--workers", "1"]);
    assert!(output.status.success());
    let (table, progress) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    for part in
        ["round-robin", "F4", "lost: unseen", "round-robin lost most to", "kv lost most to", "saved prefill"]
    {
        assert!(table.contains(part), "no {part:?} in {table}");
    }
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(progress.contains("/metrics"), "{progress}");
    assert!(!table.contains('\x1b') && !progress.contains('\x1b'));
}

#[test]
fn a_trace_that_does_not_fit_the_engines_is_refused_before_anything_runs() {
    let trace = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&trace, r#"{"timestamp":0,"input_length":600,"output_length":9,"hash_ids":[1,2]}"#)
        .unwrap();
    let output = run(&["demo", "--trace", trace.path().to_str().unwrap(), "--kv-blocks", "1"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("--kv-blocks 1: the longest request of the trace has 609 tokens"), "{message}");
}

#[test]
fn a_signal_ends_the_demo_in_the_middle_of_a_run() {
    let demo = Running::start(&["demo", "--workers", "1"]);
    demo.line_with("/metrics");
    demo.terminate();
    demo.line_with("error: SIGTERM: stopped before the runs were over");
    assert_eq!(demo.wait().code(), Some(1));
}

#[test]
fn without_once_the_last_router_goes_on_until_a_signal() {
    let demo = Running::start(&["demo", "--requests", "4", "--workers", "1", "--policy", "kv"]);
    let line = demo.line_with("requests to");
    let metrics =
        line.split_whitespace().find(|word| word.ends_with("/metrics,")).unwrap().trim_end_matches(',');
    let (status, exposition) = http("GET", metrics, "");
    assert_eq!(status, 200);
    assert!(exposition.contains("kvroute_build_info"));
    demo.terminate();
    assert!(demo.wait().success());
}
