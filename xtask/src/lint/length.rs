//! Small files: a file that outgrows the limit holds more than one purpose.

use std::ffi::OsStr;
use std::path::Path;

use super::{Finding, Source};

/// Lines of a source file that are not tests.
const LIMIT: usize = 500;

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let rust = sources.iter().filter(|source| source.path.extension() == Some(OsStr::new("rs")));
    rust.flat_map(|source| [too_long(source), mod_file(source)]).flatten().collect()
}

fn too_long(source: &Source) -> Option<Finding> {
    let lines = if is_test(&source.path) { 0 } else { lines_before_tests(&source.text) };
    (lines > LIMIT).then(|| Finding {
        file: source.path.clone(),
        line: None,
        message: format!("{lines} lines without its tests, at most {LIMIT} are allowed; split it by purpose"),
    })
}

/// `foo.rs` beside `foo/` keeps the module's name in the file's name.
fn mod_file(source: &Source) -> Option<Finding> {
    (source.path.file_name() == Some(OsStr::new("mod.rs"))).then(|| Finding {
        file: source.path.clone(),
        line: None,
        message: "a module is named after its file; move it beside its folder".into(),
    })
}

fn is_test(path: &Path) -> bool {
    path.ends_with("tests.rs") || path.iter().any(|part| part == "tests")
}

/// Tests come last in a file, so whatever follows their attribute is not counted.
fn lines_before_tests(text: &str) -> usize {
    text.lines().take_while(|line| line.trim_end() != "#[cfg(test)]").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, lines: usize, ending: &str) -> Source {
        Source { path: path.into(), text: "x\n".repeat(lines) + ending }
    }

    #[test]
    fn counts_lines_up_to_the_tests_only() {
        let tests = "#[cfg(test)]\nmod tests {}\n";
        assert!(check(&[source("crates/a/src/lib.rs", LIMIT, tests)]).is_empty());
        assert_eq!(check(&[source("crates/a/src/lib.rs", LIMIT + 1, tests)]).len(), 1);
    }

    #[test]
    fn test_files_and_other_languages_may_be_long() {
        let files = ["crates/a/tests/b.rs", "crates/a/src/b/tests.rs", "assets/corpus.txt"];
        assert!(check(&files.map(|path| source(path, LIMIT * 2, ""))).is_empty());
    }

    #[test]
    fn finds_mod_files() {
        let found = check(&[source("crates/a/src/b/mod.rs", 1, "")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("crates/a/src/b/mod.rs: "), "{}", found[0]);
    }
}
