//! Writes every generated and golden file anew.
//!
//! What writes such a file is the test that compares it, so that there is one path and no second program that could
//! differ. The tests that do so are listed here, because running all tests would take minutes; a test of this file finds
//! one that is not listed.

use anyhow::{Result, bail};

use crate::cache::cargo;
use crate::shell::run;

/// A package, and cargo's arguments for those of its test targets that write files.
const WRITERS: [(&str, &[&str]); 3] = [
    ("kvroute-metrics", &["--test", "exposition"]),
    ("kvroute-monitoring", &["--test", "generated"]),
    ("kvroute", &["--bin", "kvroute"]),
];

/// Runs the tests that write, with the variable that lets them. One that fails holds up no other: what can be written is
/// written.
pub(crate) fn run_all() -> Result<()> {
    let failed: Vec<_> =
        WRITERS.iter().filter_map(|(package, targets)| write(package, targets).err()).collect();
    for error in &failed {
        eprintln!("{error:#}");
    }
    if !failed.is_empty() {
        bail!("not every generated file could be written; see above");
    }
    println!("generated files are fresh; `git diff` shows what changed");
    Ok(())
}

fn write(package: &str, targets: &[&str]) -> Result<()> {
    let mut test = cargo("test")?;
    run(test.args(["--quiet", "--package", package]).args(targets).env("KVROUTE_BLESS", "1"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::shell::{command, output, root};

    /// Whether `--bin`, `--lib` or `--test NAME` of a listed package compiles the file.
    fn is_listed(path: &Path) -> bool {
        WRITERS.iter().any(|(package, targets)| {
            let Ok(inside) = path.strip_prefix(Path::new("crates").join(package)) else { return false };
            match targets {
                ["--test", name] => {
                    let tests = Path::new("tests");
                    inside.starts_with(tests.join(name)) || inside == tests.join(format!("{name}.rs"))
                }
                _ => inside.starts_with("src"),
            }
        })
    }

    #[test]
    fn every_test_that_writes_a_file_is_run() {
        let variable = concat!("KVROUTE_", "BLESS");
        let listed =
            output(command("git").args(["ls-files", "--cached", "--others", "--exclude-standard", "crates"]));
        let listed = listed.unwrap();
        let reads = |path: &&Path| {
            let text = fs::read_to_string(root().join(path)).unwrap_or_default();
            text.contains(&format!("var_os(\"{variable}\")"))
        };
        let writers: Vec<_> = listed.lines().map(Path::new).filter(reads).collect();
        assert!(writers.len() >= WRITERS.len(), "{writers:?}");
        for path in writers {
            assert!(is_listed(path), "{} writes files and is not in the list of this file", path.display());
        }
    }
}
