//! What Prometheus itself says of the rules: promtool reads them, and runs the cases in which each alert fires or does
//! not.
//!
//! `KVROUTE_PROMTOOL` names the program. Without it the tests are skipped with a line that says so, unless
//! `KVROUTE_REQUIRE_PEERS=1`.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "test code")]

use std::path::Path;
use std::process::Command;

/// What promtool says, if it is there and succeeds.
fn promtool(arguments: &[&str]) -> Option<String> {
    let Some(program) = std::env::var_os("KVROUTE_PROMTOOL") else {
        assert!(std::env::var_os("KVROUTE_REQUIRE_PEERS").is_none(), "KVROUTE_PROMTOOL is not set");
        eprintln!("skipped: set KVROUTE_PROMTOOL to a promtool (`cargo xtask peers` fetches one)");
        return None;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus");
    let output = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert!(output.status.success(), "promtool {}: {text}", arguments.join(" "));
    Some(text)
}

#[test]
fn prometheus_reads_the_alert_rules() {
    let Some(said) = promtool(&["check", "rules", "kvroute-alerts.yml"]) else { return };
    let rules: usize =
        kvroute_monitoring::alert_groups("dynamo").iter().map(|group| group.alerts().len()).sum();
    assert!(said.contains(&format!("SUCCESS: {rules} rules found")), "{said}");
}

#[test]
fn prometheus_reads_the_example_configuration() {
    let Some(said) = promtool(&["check", "config", "prometheus.yml"]) else { return };
    assert!(said.contains("kvroute-alerts.yml") && !said.contains("FAILED"), "{said}");
}

#[test]
fn each_alert_fires_when_it_should_and_does_not_when_it_should_not() {
    let Some(said) = promtool(&["test", "rules", "kvroute-alerts.test.yml"]) else { return };
    assert!(said.contains("SUCCESS"), "{said}");
}
