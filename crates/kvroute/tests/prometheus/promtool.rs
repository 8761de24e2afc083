//! What promtool says of an exposition.

use std::io::Write;
use std::process::{Command, Stdio};

use kvroute_metrics::CATALOGUE;

/// Standard families that are named by an abbreviated unit, as panels that exist already ask for them.
const ABBREVIATED: usize = 5;

/// Every line that it prints is a finding.
pub(crate) fn finds_nothing_but_abbreviated_units(exposition: &str, prefix: &str) {
    let mut promtool = Command::new(std::env::var_os("KVROUTE_PROMTOOL").unwrap())
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(exposition.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    let findings: Vec<&str> = said.lines().collect();
    let milliseconds = CATALOGUE.iter().filter(|row| row.name.ends_with("_ms"));
    let mut expected: Vec<_> = milliseconds
        .map(|row| format!("{} metric names should not contain abbreviated units", row.exposed_name(prefix)))
        .collect();
    expected.sort();
    assert_eq!(expected.len(), ABBREVIATED);
    assert_eq!(findings, expected);
}
