//! Dependencies point one way. The table says which crates of the workspace each crate may use; `ARCHITECTURE.md` shows
//! the same table to readers.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Finding;
use crate::shell::{command, output};

/// State machines that a replay runs as the live router does: no runtime, clock, network or metrics of their own.
const PURE: [&str; 6] = [
    "kvroute-core",
    "kvroute-index",
    "kvroute-funnel",
    "kvroute-history",
    "kvroute-select",
    "kvroute-openai",
];

/// What [`PURE`] crates must not depend on.
const IMPURE: [&str; 9] = [
    "axum",
    "http",
    "hyper",
    "hyper-util",
    "prometheus",
    "rand_chacha",
    "tokio",
    "tokio-util",
    "tracing-subscriber",
];

/// A crate and the crates of the workspace it may use, its tests included.
const LAYERS: [(&str, &[&str]); 17] = [
    ("kvroute-core", &[]),
    ("kvroute-zmtp", &[]),
    ("kvroute-index", &["core"]),
    ("kvroute-funnel", &["core"]),
    ("kvroute-history", &["core"]),
    ("kvroute-select", &["core"]),
    ("kvroute-openai", &["core"]),
    ("kvroute-metrics", &["core", "funnel"]),
    ("kvroute-tokenize", &["core", "openai"]),
    ("kvroute-engine", &["core", "openai", "zmtp"]),
    (
        "kvroute-router",
        &[
            "core", "zmtp", "index", "funnel", "history", "select", "openai", "metrics", "tokenize",
            "engine", "cluster",
        ],
    ),
    ("kvroute-cluster", &["core", "history"]),
    ("kvroute-monitoring", &["core", "funnel", "metrics"]),
    ("kvroute-server", &["core", "openai", "engine", "router", "metrics"]),
    // Never the index: a simulated engine that shared it would hide its faults.
    ("kvroute-sim", &["core", "openai", "tokenize", "zmtp"]),
    ("kvroute-replay", &["core", "index", "funnel", "select", "openai"]),
    ("xtask", &[]),
];

/// Crates at the top, which may use everything.
const TOP: [&str; 3] = ["kvroute", "kvroute-testkit", "kvroute-bench"];

pub(super) fn check() -> Result<Vec<Finding>> {
    let metadata =
        output(command("cargo").args(["metadata", "--format-version", "1", "--no-deps", "--locked"]))?;
    let metadata: Value =
        serde_json::from_str(&metadata).context("cargo metadata wrote something else than JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    Ok(packages.iter().flat_map(check_package).collect())
}

fn check_package(package: &Value) -> Vec<Finding> {
    let name = package["name"].as_str().unwrap_or_default();
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let forbidden = dependencies.filter_map(|dependency| {
        let used = dependency["name"].as_str()?;
        let in_tests = dependency["kind"] == "dev";
        violation(name, used, in_tests)
    });
    let file = format!("crates/{name}/Cargo.toml");
    let unknown = (!is_known(name))
        .then(|| "the crate is not in the table of xtask's lint `layers`; add it".to_owned());
    forbidden
        .chain(unknown)
        .map(|message| Finding { file: file.clone().into(), line: None, message })
        .collect()
}

fn is_known(name: &str) -> bool {
    TOP.contains(&name) || LAYERS.iter().any(|(layer, _)| *layer == name)
}

fn violation(name: &str, used: &str, in_tests: bool) -> Option<String> {
    if !in_tests && PURE.contains(&name) && IMPURE.contains(&used) {
        return Some(format!(
            "a pure crate must not depend on `{used}`; take time, chance and bytes as arguments"
        ));
    }
    let (_, allowed) = LAYERS.iter().find(|(layer, _)| *layer == name)?;
    let short = used.strip_prefix("kvroute").map(|rest| rest.trim_start_matches('-'))?;
    (!allowed.contains(&short))
        .then(|| format!("must not depend on `{used}`: dependencies point from the binary to core"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, used: &str, kind: Option<&str>) -> Value {
        json!({"name": name, "dependencies": [{"name": used, "kind": kind}]})
    }

    #[test]
    fn dependencies_point_down() {
        assert!(check_package(&package("kvroute-router", "kvroute-index", None)).is_empty());
        assert_eq!(check_package(&package("kvroute-index", "kvroute-router", None)).len(), 1);
        assert_eq!(check_package(&package("kvroute-sim", "kvroute-index", Some("dev"))).len(), 1);
        assert_eq!(check_package(&package("kvroute-core", "kvroute", None)).len(), 1);
        assert!(check_package(&package("kvroute", "kvroute-sim", None)).is_empty());
    }

    #[test]
    fn pure_crates_stay_pure_except_in_tests() {
        assert_eq!(check_package(&package("kvroute-index", "tokio", None)).len(), 1);
        assert!(check_package(&package("kvroute-index", "tokio", Some("dev"))).is_empty());
        assert!(check_package(&package("kvroute-engine", "tokio", None)).is_empty());
    }

    #[test]
    fn a_crate_outside_the_table_is_found() {
        assert_eq!(check_package(&package("kvroute-new", "serde", None)).len(), 1);
    }
}
