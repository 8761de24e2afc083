//! Runs the binary and reads what it prints.

use std::process::{Output, Stdio};

use serde_json::Value;
use tokio::process::Command;

/// What a run ended with.
#[derive(Debug)]
pub(crate) struct Examination {
    pub(crate) code: i32,
    pub(crate) report: Value,
}

/// Runs `kvroute doctor` with arguments, without an inherited configuration.
pub(crate) async fn doctor(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvroute"));
    let inherited = std::env::vars_os().map(|(name, _)| name);
    for name in inherited.filter(|name| name.to_string_lossy().starts_with("KVROUTE_")) {
        command.env_remove(name);
    }
    command.arg("doctor").args(arguments).env_remove("RUST_LOG").stdin(Stdio::null()).output().await.unwrap()
}

/// The same with `--json`, read.
pub(crate) async fn examine(arguments: &[&str]) -> Examination {
    let output = doctor(&[arguments, &["--json"]].concat()).await;
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    Examination { code: output.status.code().unwrap(), report }
}

// === impl Examination ===

impl Examination {
    /// Severity and code of everything that was found at a worker.
    pub(crate) fn found(&self, worker: usize) -> Vec<(&str, &str)> {
        named(&self.report["workers"][worker]["findings"])
    }

    /// The same between workers.
    pub(crate) fn found_between(&self) -> Vec<(&str, &str)> {
        named(&self.report["findings"])
    }

    /// Message and remedy of a finding at the first worker.
    pub(crate) fn told(&self, code: &str) -> String {
        let findings = self.report["workers"][0]["findings"].as_array().unwrap();
        let finding = findings.iter().find(|finding| finding["code"] == code);
        let finding = finding.unwrap_or_else(|| panic!("no {code} in {}", self.report));
        format!("{} / {}", finding["message"].as_str().unwrap(), finding["remedy"].as_str().unwrap())
    }
}

fn named(findings: &Value) -> Vec<(&str, &str)> {
    let findings = findings.as_array().unwrap().iter();
    findings
        .map(|finding| (finding["severity"].as_str().unwrap(), finding["code"].as_str().unwrap()))
        .collect()
}
