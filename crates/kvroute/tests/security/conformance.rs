//! The OpenAPI document held against both planes by schemathesis: whatever its requests look like, no status comes back that the
//! document does not name, and none that is a fault of the router.
//!
//! Every error is checked by its members: one of the router's own has all of them, one of an engine those of one of the shapes that
//! the document has, which are held against what real engines have answered.
//!
//! `KVROUTE_SCHEMATHESIS` names its program `st`; without it the test says that it is skipped, or fails with
//! `KVROUTE_REQUIRE_PEERS=1`.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use kvroute_sim::SimConfig;
use kvroute_testkit::{Fleet, server_config};
use serde_json::{Value, json};
use tokio::process::Command;

/// What is checked: the shape of answers and their statuses. What of the requests the engine takes is its own matter.
const CHECKS: &str = "status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance";

/// Requests for each operation, beside those that cover its parameters one by one.
const EXAMPLES: &str = "15";

/// The document without what it says of statuses that only an engine gives: the simulated one gives those that are named, in
/// its own words and no other engine's. So an error that lacks a member is nobody's.
fn strict(mut document: Value) -> Value {
    for methods in document["paths"].as_object_mut().unwrap().values_mut() {
        for operation in methods.as_object_mut().unwrap().values_mut() {
            operation["responses"].as_object_mut().unwrap().remove("default");
        }
    }
    let code = json!({"type": "integer"});
    let mut of_vllm = document["components"]["schemas"]["Error"].clone();
    of_vllm["properties"]["error"]["properties"]["code"] = code;
    document["components"]["schemas"]["EnginesError"] = of_vllm;
    document
}

async fn held_against(program: &str, file: &Path, plane: String, tag: &str) {
    let tested = Command::new(program)
        .current_dir(file.parent().unwrap()) // It keeps notes where it runs.
        .args(["run", file.to_str().unwrap(), "--url", &plane, "--include-tag", tag, "--checks", CHECKS])
        .args(["--phases", "coverage,fuzzing", "--max-examples", EXAMPLES, "--seed", "7"])
        .args(["--suppress-health-check", "all", "--no-color"])
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success(), "{tag}: {said}{}", String::from_utf8_lossy(&tested.stderr));
    assert!(said.contains(" passed"), "{tag}: {said}");
    assert!(!said.contains("[500]"), "{tag}: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_brings_a_status_that_the_document_does_not_name() {
    let Ok(program) = std::env::var("KVROUTE_SCHEMATHESIS") else {
        assert!(std::env::var_os("KVROUTE_REQUIRE_PEERS").is_none(), "KVROUTE_SCHEMATHESIS is not set");
        eprintln!("skipped: KVROUTE_SCHEMATHESIS does not name schemathesis' program st");
        return;
    };
    let fleet = Fleet::start_unfollowed(vec![SimConfig::default()], |urls| {
        let mut config = server_config(urls, "kv");
        config.router.pools[0].queue.timeout = Duration::from_secs(1);
        config
    });
    let fleet = fleet.await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openapi.json");
    let document = strict(fleet.client.get(&fleet.admin("/openapi.json")).await.json());
    std::fs::write(&file, document.to_string()).unwrap();
    held_against(&program, &file, fleet.data(""), "data").await;
    // Last, because it adds, drains and removes workers.
    held_against(&program, &file, fleet.admin(""), "admin").await;
    fleet.stop().await;
}

/// Whether a value is what a schema says, as far as the document's errors say anything.
fn fits(value: &Value, schema: &Value) -> bool {
    let is_of = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("null") => value.is_null(),
        _ => false,
    };
    let has_type = match &schema["type"] {
        Value::Null => true,
        Value::Array(names) => names.iter().any(is_of),
        name => is_of(name),
    };
    let required = schema["required"].as_array().into_iter().flatten();
    let known = schema["properties"].as_object().into_iter().flatten();
    has_type
        && schema.get("const").is_none_or(|expected| value == expected)
        && required.into_iter().all(|name| value.get(name.as_str().unwrap()).is_some())
        && known.into_iter().all(|(name, of)| value.get(name).is_none_or(|value| fits(value, of)))
        && schema["anyOf"].as_array().is_none_or(|shapes| shapes.iter().any(|shape| fits(value, shape)))
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_real_engines_are_what_the_document_says_of_them() {
    let fleet = Fleet::start_unfollowed(vec![SimConfig::default()], |urls| server_config(urls, "kv")).await;
    let document = fleet.client.get(&fleet.admin("/openapi.json")).await.json();
    fleet.stop().await;
    let [own, engines] =
        ["Error", "EnginesError"].map(|name| document["components"]["schemas"][name].clone());
    let (mut errors, folder) = (0, Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures"));
    for engine in ["vllm", "sglang", "llamacpp"] {
        let captured = std::fs::File::open(folder.join(engine).join("http.jsonl.gz")).unwrap();
        let mut lines = String::new();
        flate2::read::GzDecoder::new(captured).read_to_string(&mut lines).unwrap();
        for line in lines.lines() {
            let exchange: Value = serde_json::from_str(line).unwrap();
            if exchange["status"].as_u64().is_none_or(|status| status < 400) {
                continue;
            }
            let body: Value = serde_json::from_str(exchange["response_body"].as_str().unwrap()).unwrap();
            assert!(fits(&body, &engines), "{engine}: {body}");
            assert!(!fits(&body, &own), "{engine} speaks as the router does: {body}");
            errors += 1;
        }
    }
    assert!(errors > 15, "{errors} errors were captured");
    for of_nobody in
        [json!({}), json!({"error": {"message": "no type"}}), json!({"message": "flat"}), json!([])]
    {
        assert!(!fits(&of_nobody, &engines) && !fits(&of_nobody, &own), "{of_nobody}");
    }
}
