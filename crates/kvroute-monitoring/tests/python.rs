//! The Python package, read by Python: it says what the catalogue says, and its types hold.
//!
//! `KVROUTE_PYTHON` names a Python that has `mypy`. Without it the tests are skipped with a line that says so, unless
//! `KVROUTE_REQUIRE_PEERS=1`.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "test code")]

use std::path::{Path, PathBuf};
use std::process::Command;

use kvroute_metrics::CATALOGUE;
use serde_json::{Value, json};

/// Reads a list of calls and prints the table and their results, or the error of a call that has none.
const SCRIPT: &str = "
import json, sys
import kvroute_metrics as metrics

def called(arguments):
    try:
        return metrics.name(*arguments)
    except ValueError as error:
        return {'error': str(error)}

families = [vars(family) | {'constant': family.name.upper()} for family in metrics.FAMILIES]
for family in families:
    assert getattr(metrics, family['constant']) == family['name']
print(json.dumps({'families': families, 'called': [called(call) for call in json.loads(sys.argv[1])]}))
";

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/kvroute_metrics")
}

/// What Python prints, if it is there and succeeds.
fn python(arguments: &[&str]) -> Option<String> {
    let Some(program) = std::env::var_os("KVROUTE_PYTHON") else {
        assert!(std::env::var_os("KVROUTE_REQUIRE_PEERS").is_none(), "KVROUTE_PYTHON is not set");
        eprintln!("skipped: set KVROUTE_PYTHON to a Python that has mypy (`cargo xtask peers` makes one)");
        return None;
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(package()).env("PYTHONPATH", package().join("src"));
    let output = command.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{text}");
    Some(text)
}

#[test]
fn the_package_has_the_version_of_the_router() {
    let project = std::fs::read_to_string(package().join("pyproject.toml")).unwrap();
    let version = format!("\nversion = \"{}\"\n", env!("CARGO_PKG_VERSION"));
    assert!(project.contains(&version), "pyproject.toml of python/kvroute_metrics lacks {version}");
}

#[test]
fn python_reads_the_catalogue() {
    let Some(printed) = python(&["-c", SCRIPT, "[]"]) else { return };
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let families = CATALOGUE.iter().map(|row| {
        let labels: Vec<_> = row.labels.iter().map(|label| label.name).collect();
        json!({
            "name": row.name, "type": row.kind.as_str(), "labels": labels, "unit": row.unit, "help": row.help,
            "constant": row.name.to_ascii_uppercase(),
        })
    });
    assert_eq!(printed["families"], Value::from(families.collect::<Vec<_>>()));
}

#[test]
fn a_name_follows_the_prefix() {
    let standard = kvroute_metrics::rows::BOOKINGS;
    let own = kvroute_metrics::rows::REQUESTS;
    let calls = json!([
        [standard.name],
        [standard.name, "acme"],
        [own.name, "acme"],
        ["kvroute_no_such_total"],
        [standard.name, "9lives"],
    ]);
    let Some(printed) = python(&["-c", SCRIPT, &calls.to_string()]) else { return };
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let called = &printed["called"];
    assert_eq!(called[0], standard.name);
    assert_eq!(called[1], standard.exposed_name("acme"));
    assert_eq!(called[2], own.name);
    assert!(called[3]["error"].as_str().unwrap().contains("kvroute_no_such_total"), "{called}");
    assert!(called[4]["error"].as_str().unwrap().contains("9lives"), "{called}");
}

#[test]
fn the_types_hold() {
    let cache = std::env::temp_dir().join(format!("kvroute-mypy-{}", std::process::id()));
    let said = python(&["-m", "mypy", "--strict", "--cache-dir", cache.to_str().unwrap(), "src"]);
    let Some(said) = said else { return };
    let _ = std::fs::remove_dir_all(cache);
    assert!(said.contains("no issues found"), "{said}");
}
