//! Rules of structure that the compiler does not know: each is a function that returns what it found.

mod clocks;
mod layers;
mod length;
mod words;

use std::fmt;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::shell::{command, output, root};

/// One violation, where it is and what to do about it.
pub(crate) struct Finding {
    /// File, relative to the root of the checkout.
    file: PathBuf,
    /// Line from 1; absent when the whole file is meant.
    line: Option<usize>,
    message: String,
}

/// One text file of the checkout.
pub(crate) struct Source {
    /// Relative to the root of the checkout.
    path: PathBuf,
    text: String,
}

/// Checks every rule and prints what it found; fails if that is anything.
pub(crate) fn run() -> Result<()> {
    let sources = sources()?;
    let mut findings = length::check(&sources);
    findings.extend(words::check(&sources));
    findings.extend(clocks::check(&sources));
    findings.extend(layers::check()?);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("{count} violations of the project's rules of structure"),
    }
}

/// Every text file that is committed or would be, except those that only copy what others wrote.
fn sources() -> Result<Vec<Source>> {
    let listed = output(command("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]))?;
    let ours = listed.lines().filter(|path| !path.ends_with("Cargo.lock") && *path != "LICENSE");
    // A file that is no text, or was deleted but not committed yet, cannot be read and breaks no rule.
    Ok(ours
        .filter_map(|path| Some((path, std::fs::read_to_string(root().join(path)).ok()?)))
        .map(|(path, text)| Source { path: path.into(), text })
        .collect())
}

// === impl Finding ===

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
        }
        write!(formatter, ": {}", self.message)
    }
}
