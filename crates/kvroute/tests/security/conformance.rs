//! The OpenAPI document held against both planes by schemathesis: whatever its requests look like, no status comes back that the
//! document does not name, and none that is a fault of the router.
//!
//! `KVROUTE_SCHEMATHESIS` names its program `st`; without it the test says that it is skipped, or fails with
//! `KVROUTE_REQUIRE_PEERS=1`.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use kvroute_sim::SimConfig;
use kvroute_testkit::{Fleet, server_config};
use serde_json::Value;
use tokio::process::Command;

/// What is checked: the shape of answers and their statuses. What of the requests the engine takes is its own matter.
const CHECKS: &str = "status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance";

/// Requests for each operation, beside those that cover its parameters one by one.
const EXAMPLES: &str = "15";

/// The document without what it says of statuses that only an engine gives: the simulated one gives those that are named.
fn strict(mut document: Value) -> Value {
    for methods in document["paths"].as_object_mut().unwrap().values_mut() {
        for operation in methods.as_object_mut().unwrap().values_mut() {
            operation["responses"].as_object_mut().unwrap().remove("default");
        }
    }
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
