//! The catalogue for a terminal: kind, name, labels and meaning of each family.

use kvroute_metrics::{CATALOGUE, Row};

/// Columns that every terminal has.
const WIDTH: usize = 80;

/// Where names and texts begin, behind the kind.
const INDENT: usize = 11;

/// Every family, with names under a prefix. No line is wider than a terminal, unless a long prefix makes it so.
pub fn catalogue_table(prefix: &str) -> String {
    CATALOGUE.iter().map(|row| entry(row, prefix)).collect::<Vec<_>>().join("\n")
}

fn entry(row: &Row, prefix: &str) -> String {
    let mut entry = format!("{:INDENT$}{}\n", row.kind.as_str(), row.exposed_name(prefix));
    let labels: Vec<_> = row.labels.iter().map(|label| label.name).collect();
    if !labels.is_empty() {
        push(&mut entry, &format!("{{{}}}", labels.join(", ")));
    }
    for line in wrapped(row.help, WIDTH - INDENT) {
        push(&mut entry, &line);
    }
    entry
}

fn push(entry: &mut String, line: &str) {
    entry.push_str(&" ".repeat(INDENT));
    entry.push_str(line);
    entry.push('\n');
}

/// Words in lines of at most so many characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_there_and_fits() {
        let table = catalogue_table("dynamo");
        for row in CATALOGUE {
            assert!(table.contains(row.name), "{}", row.name);
        }
        let widest = table.lines().max_by_key(|line| line.len()).unwrap_or_default();
        assert!(widest.len() <= WIDTH, "{widest}");
    }

    #[test]
    fn an_entry_reads_like_this() {
        let row = kvroute_metrics::rows::REQUESTS;
        let lines = [
            "counter    kvroute_requests_total",
            "           {model, endpoint, outcome}",
            "           Client requests by how they ended; model is unknown where none was",
            "           recognised",
            "",
        ];
        assert_eq!(entry(row, "dynamo"), lines.join("\n"));
    }
}
