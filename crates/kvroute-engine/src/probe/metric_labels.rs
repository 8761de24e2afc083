//! Labels of a Prometheus series: some engines tell their configuration nowhere else.

use std::collections::HashMap;

/// The label sets of every series of one family in the text format.
pub(crate) fn metric_labels<'a>(
    exposition: &'a str,
    family: &'a str,
) -> impl Iterator<Item = HashMap<&'a str, String>> {
    exposition.lines().filter_map(move |line| line.strip_prefix(family)?.strip_prefix('{')).map(labels)
}

/// Reads `name="value",...}`; stops at what it does not understand.
fn labels(mut rest: &str) -> HashMap<&str, String> {
    let mut labels = HashMap::new();
    while let Some((name, quoted)) = rest.split_once("=\"") {
        let Some((value, behind)) = unquote(quoted) else { break };
        labels.insert(name.trim_start_matches(',').trim(), value);
        rest = behind;
        if rest.starts_with('}') {
            break;
        }
    }
    labels
}

/// The text before the closing quote with its escapes resolved, and what stands behind the quote.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((position, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[position + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            _ => value.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_every_series_of_the_family_and_no_other() {
        let text = "# TYPE a_info gauge\na_info{x=\"1\",y=\"q\\\"uo\\\\te\\n\"} 1.0\na_information{x=\"9\"} 1\na_info{x=\"2\", } 1\na_info 3\n";
        let found: Vec<_> = metric_labels(text, "a_info").collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0]["x"].as_str(), found[0]["y"].as_str()), ("1", "q\"uo\\te\n"));
        assert_eq!(found[1]["x"], "2");
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "a_info\\{\\PC*") {
            metric_labels(&text, "a_info").count();
        }
    }
}
