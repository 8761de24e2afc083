//! The clock on the wall jumps, so nothing that lasts is measured by it: each file that reads it is named here, with what for.

use super::{Finding, Source};

/// Files that may, and why.
const ALLOWED: [(&str, &str); 12] = [
    ("crates/kvroute/src/commands/doctor/trial.rs", "makes a prompt that no engine has seen"),
    ("crates/kvroute/src/commands/explain.rs", "tells how long ago a decision was"),
    ("crates/kvroute/src/export/clock.rs", "tells when a span began"),
    ("crates/kvroute-engine/src/tls/identity.rs", "a certificate is valid from and until"),
    ("crates/kvroute-router/src/wall_clock.rs", "tells when a decision was, and how old a file is"),
    ("crates/kvroute-sim/src/events.rs", "an engine's events say when they were published"),
    ("crates/kvroute-sim/src/http.rs", "an engine tells when it was started"),
    ("crates/kvroute-sim/src/http/generate.rs", "an answer says when it was made"),
    ("crates/kvroute-sim/src/http/info/sglang.rs", "an engine tells its time"),
    ("crates/kvroute-sim/src/http/metrics.rs", "an engine tells when it was started"),
    ("crates/kvroute-sim/src/http/pooling.rs", "an answer says when it was made"),
    ("crates/kvroute-sim/src/http/stream/failed.rs", "an answer says when it was made"),
];

/// The same of a crate, where templates ask for the date.
const ALLOWED_IN: &str = "crates/kvroute-tokenize/src/python/";

/// What reads that clock.
const NAMES: [&str; 3] = ["SystemTime", "UNIX_EPOCH", "UnixTime"];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    sources.iter().filter(|source| is_product(source)).filter_map(in_file).collect()
}

fn is_product(source: &Source) -> bool {
    let path = source.path.to_string_lossy();
    path.starts_with("crates/")
        && path.ends_with(".rs")
        && path.contains("/src/")
        && !path.ends_with("/tests.rs")
        && !path.contains("/tests/")
}

fn in_file(source: &Source) -> Option<Finding> {
    let path = source.path.to_string_lossy();
    let mut product = source.text.lines().take_while(|line| *line != "mod tests {");
    let line = product.position(|line| NAMES.iter().any(|name| line.contains(name)))?;
    let is_allowed = path.starts_with(ALLOWED_IN) || ALLOWED.iter().any(|(allowed, _)| *allowed == path);
    (!is_allowed).then(|| Finding {
        file: source.path.clone(),
        line: Some(line + 1),
        message: "reads the clock on the wall, which jumps: measure by tokio::time::Instant, or go through the router's \
                  wall_clock.rs; what else must read it is named in xtask's lint `clocks`"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&[Source { path: path.into(), text: text.to_owned() }]).len()
    }

    #[test]
    fn only_the_files_that_are_named_read_the_clock_on_the_wall() {
        let text = "use std::time::Duration;\nlet now = std::time::SystemTime::now();\n";
        assert_eq!(found("crates/kvroute-router/src/worker.rs", text), 1);
        assert_eq!(found("crates/kvroute-router/src/wall_clock.rs", text), 0);
        assert_eq!(found("crates/kvroute-router/src/worker.rs", "use tokio::time::Instant;"), 0);
        assert_eq!(found("crates/kvroute-router/src/worker/tests.rs", text), 0);
        assert_eq!(found("crates/kvroute/tests/binary/serve.rs", text), 0);
        assert_eq!(
            found("crates/kvroute-router/src/worker.rs", &format!("#[cfg(test)]\nmod tests {{\n{text}}}\n")),
            0
        );
    }

    #[test]
    fn every_file_that_is_named_reads_it() {
        for (path, _) in ALLOWED {
            let text = std::fs::read_to_string(crate::shell::root().join(path)).unwrap();
            assert!(NAMES.iter().any(|name| text.contains(name)), "{path} is named in vain");
        }
    }
}
