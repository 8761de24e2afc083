//! Words that must not be committed: hosts of package registries, since packages are named and mirrors differ from
//! place to place, and paths of one machine.

use super::{Finding, Source};

/// Each is written in two parts so that this file does not find itself.
const FORBIDDEN: [(&str, &str); 9] = [
    (concat!("crates", ".io"), "name the package, not the registry's host"),
    (concat!("pypi", ".org"), "name the package, not the registry's host"),
    (concat!("files.python", "hosted"), "name the package, not the registry's host"),
    (concat!("registry.npm", "js"), "name the package, not the registry's host"),
    (concat!("npmjs", ".com"), "name the package, not the registry's host"),
    (concat!("deb.deb", "ian.org"), "name the package, not the registry's host"),
    (concat!("/work", "/"), "a path of one machine; make it relative to the checkout"),
    (concat!("/tmp", "/kv"), "a path of one machine; use a temporary folder"),
    (concat!("..", "/shared"), "not part of the checkout; copy what is needed, with its licence"),
];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    sources
        .iter()
        .flat_map(|source| source.text.lines().enumerate().flat_map(|line| in_line(source, line)))
        .collect()
}

fn in_line(source: &Source, (index, line): (usize, &str)) -> Vec<Finding> {
    let found = FORBIDDEN.iter().filter(|(word, _)| line.contains(word));
    found
        .map(|(word, remedy)| Finding {
            file: source.path.clone(),
            line: Some(index + 1),
            message: format!("`{word}` must not be committed: {remedy}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_file_and_line() {
        let text = format!("fine\nsee {}/x\n", concat!("pypi", ".org"));
        let found = check(&[Source { path: "README.md".into(), text }]);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("README.md:2: "), "{}", found[0]);
    }
}
