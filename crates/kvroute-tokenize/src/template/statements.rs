//! Cuts a template into the words of its statements and expressions.
//!
//! Not a parser: just enough to see which variable a loop runs over.

/// One word of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word<'a> {
    /// A name or a keyword.
    Name(&'a str),
    /// A string literal, without its quotes.
    Text(&'a str),
    /// Any other character.
    Mark(char),
}

/// The words of each `{% … %}` and `{{ … }}`, in order; comments left out.
pub(super) fn statements(source: &str) -> Vec<Vec<Word<'_>>> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        rest = &rest[start + 1..];
        let end_mark = match rest.chars().next() {
            Some('#') => {
                rest = rest.find("#}").map_or("", |end| &rest[end + 2..]);
                continue;
            }
            Some('%') => "%}",
            Some('{') => "}}",
            _ => continue,
        };
        let (words, behind) = words_until(&rest[1..], end_mark);
        found.push(words);
        rest = behind;
    }
    found
}

/// Whether a statement marks text as safe and adds something to it.
pub(super) fn adds_to_safe_text(source: &str) -> bool {
    let is_mark = |pair: &[Word<'_>]| pair == [Word::Mark('|'), Word::Name("safe")];
    statements(source).iter().any(|words| words.windows(2).any(is_mark) && words.contains(&Word::Mark('+')))
}

/// The words before `end_mark` outside of string literals, and what follows it.
fn words_until<'a>(source: &'a str, end_mark: &str) -> (Vec<Word<'a>>, &'a str) {
    let mut words = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix(end_mark) {
            return (words, behind);
        }
        let length = if first == '_' || first.is_alphanumeric() {
            let end = rest.find(|next: char| next != '_' && !next.is_alphanumeric());
            let length = end.unwrap_or(rest.len());
            words.push(Word::Name(&rest[..length]));
            length
        } else if first == '\'' || first == '"' {
            let length = literal_length(rest, first);
            let inner = &rest[1..length];
            words.push(Word::Text(inner.strip_suffix(first).unwrap_or(inner)));
            length
        } else {
            if !first.is_whitespace() {
                words.push(Word::Mark(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    (words, rest)
}

/// Length of the literal at the start, its quotes included.
fn literal_length(source: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in source.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_outside_of_literals_and_comments() {
        use Word::{Mark, Name, Text};
        let source = "a { b {# {% x %} #}{%- set a = '%}\\'' -%} {{ m[\"k\"]|f(1) }} {{ \"open";
        let expected = vec![
            vec![Mark('-'), Name("set"), Name("a"), Mark('='), Text("%}\\'"), Mark('-')],
            vec![
                Name("m"),
                Mark('['),
                Text("k"),
                Mark(']'),
                Mark('|'),
                Name("f"),
                Mark('('),
                Name("1"),
                Mark(')'),
            ],
            vec![Text("open")],
        ];
        assert_eq!(statements(source), expected);
    }
}
