//! Where a standard family means something else than the public router's: all of it in one place, for whoever brings
//! panels along.

use std::fmt::{self, Write};

use kvroute_metrics::{CATALOGUE, Row};

const INTRODUCTION: &str = "\
## Differences from the public Dynamo router

Where the public implementation is known to mislead, the families below keep its name, labels and buckets and mean what is
said here. All others are meant to say the same in both.
";

/// One line a difference, with all families that it concerns.
pub(super) fn write(page: &mut String, prefix: &str) -> fmt::Result {
    writeln!(page, "{INTRODUCTION}")?;
    for (differs, rows) in differences() {
        let names: Vec<_> = rows.iter().map(|row| format!("`{}`", row.exposed_name(prefix))).collect();
        writeln!(page, "* {}: {differs}", names.join(", "))?;
    }
    writeln!(page)
}

/// Each text once, in the order of the catalogue.
fn differences() -> Vec<(&'static str, Vec<&'static Row>)> {
    let mut differences: Vec<(&str, Vec<&Row>)> = Vec::new();
    for &row in CATALOGUE.iter().filter(|row| !row.differs.is_empty()) {
        match differences.iter_mut().find(|(differs, _)| *differs == row.differs) {
            Some((_, rows)) => rows.push(row),
            None => differences.push((row.differs, vec![row])),
        }
    }
    differences
}
