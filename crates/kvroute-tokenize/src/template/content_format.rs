//! Whether a template prints message content as text or takes its parts one by one.
//!
//! vLLM decides this by looking at the template and prepares every chat accordingly, so the same must be found
//! out here: a template takes parts when a loop in it runs over the content of a message, be it directly or
//! through a macro that is handed the content.

use std::collections::BTreeSet;

use super::statements::{Word, statements};

/// The form in which a template takes content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentFormat {
    /// One text.
    Text,
    /// A list of parts, each with a type.
    Parts,
}

/// What matters of a template.
#[derive(Debug, Default)]
struct Outline<'a> {
    assignments: Vec<(&'a str, Vec<Word<'a>>)>,
    loops: Vec<Loop<'a>>,
    macros: Vec<Macro<'a>>,
    open_macro: Option<usize>,
}

#[derive(Debug)]
struct Loop<'a> {
    target: &'a str,
    over: Vec<Word<'a>>,
    in_macro: Option<usize>,
}

#[derive(Debug)]
struct Macro<'a> {
    name: &'a str,
    parameters: Vec<&'a str>,
}

// === impl ContentFormat ===

impl ContentFormat {
    /// Looks at a template.
    pub(super) fn detect(source: &str) -> Self {
        let statements = statements(source);
        let mut outline = Outline::default();
        for words in &statements {
            outline.note(words);
        }
        let messages = outline.message_variables();
        let takes_parts = outline.loops.iter().any(|found| {
            if is_content(&found.over, &messages) {
                return true;
            }
            let [Word::Name(variable)] = found.over[..] else { return false };
            match found.in_macro {
                None => variable == "content",
                Some(index) => outline.macros[index].gets_content(variable, &statements, &messages),
            }
        });
        if takes_parts { Self::Parts } else { Self::Text }
    }

    /// Looks at a template as SGLang does: a word about pictures or sounds is enough, and a loop counts only over the
    /// content of a variable with one of three names.
    pub(super) fn detect_as_sglang(source: &str) -> Self {
        if ["image", "audio", "video", "vision"].iter().any(|word| source.contains(word)) {
            return Self::Parts;
        }
        let mut outline = Outline::default();
        statements(source).iter().for_each(|words| outline.note(words));
        let messages = BTreeSet::from(["message", "msg", "m"]);
        let takes_parts = outline.loops.iter().any(|found| is_content(&found.over, &messages));
        if takes_parts { Self::Parts } else { Self::Text }
    }
}

// === impl Outline ===

impl<'a> Outline<'a> {
    fn note(&mut self, words: &[Word<'a>]) {
        let words = words.strip_prefix(&[Word::Mark('-')]).unwrap_or(words);
        let words = words.strip_suffix(&[Word::Mark('-')]).unwrap_or(words);
        match words {
            [Word::Name("for"), Word::Name(target), Word::Name("in"), over @ ..] => {
                let is_end = |word: &Word<'_>| matches!(word, Word::Name("if" | "recursive"));
                let end = over.iter().position(is_end).unwrap_or(over.len());
                let over = over[..end].to_vec();
                self.loops.push(Loop { target, over, in_macro: self.open_macro });
            }
            [Word::Name("set"), Word::Name(name), Word::Mark('='), value @ ..] => {
                self.assignments.push((name, value.to_vec()));
            }
            [Word::Name("macro"), Word::Name(name), Word::Mark('('), rest @ ..] => {
                let parameters = arguments(rest).into_iter().filter_map(|words| match words.first() {
                    Some(Word::Name(parameter)) => Some(*parameter),
                    _ => None,
                });
                self.open_macro = Some(self.macros.len());
                self.macros.push(Macro { name, parameters: parameters.collect() });
            }
            [Word::Name("endmacro"), ..] => self.open_macro = None,
            _ => {}
        }
    }

    /// Variables that stand for one message: targets of loops over `messages` or a part of it.
    fn message_variables(&self) -> BTreeSet<&'a str> {
        let mut lists = BTreeSet::from(["messages"]);
        loop {
            let is_list = |words: &[Word<'_>]| {
                access(words).is_some_and(|(variable, key)| key.is_none() && lists.contains(variable))
            };
            let new = self.assignments.iter().find(|(name, value)| !lists.contains(name) && is_list(value));
            match new {
                Some((name, _)) => lists.insert(*name),
                None => {
                    return self.loops.iter().filter(|it| is_list(&it.over)).map(|it| it.target).collect();
                }
            };
        }
    }
}

// === impl Macro ===

impl Macro<'_> {
    /// Whether a call hands the content of a message to this parameter.
    fn gets_content(&self, parameter: &str, statements: &[Vec<Word<'_>>], messages: &BTreeSet<&str>) -> bool {
        let Some(position) = self.parameters.iter().position(|name| *name == parameter) else { return false };
        let is_call = |pair: &[Word<'_>]| pair == [Word::Name(self.name), Word::Mark('(')];
        statements.iter().any(|words| {
            let calls = (2..=words.len()).filter(|&behind| is_call(&words[behind - 2..behind]));
            calls.into_iter().any(|behind| {
                arguments(&words[behind..]).iter().enumerate().any(|(index, argument)| match argument[..] {
                    [Word::Name(name), Word::Mark('='), ref value @ ..] => {
                        name == parameter && is_content(value, messages)
                    }
                    ref value => index == position && is_content(value, messages),
                })
            })
        })
    }
}

/// Whether the words are `message.content`, maybe sliced, filtered or tested.
fn is_content(words: &[Word<'_>], messages: &BTreeSet<&str>) -> bool {
    access(words).is_some_and(|(variable, key)| key == Some("content") && messages.contains(variable))
}

/// Reads `variable`, `variable.key` or `variable['key']` with slices, filters and tests behind it.
fn access<'a>(words: &[Word<'a>]) -> Option<(&'a str, Option<&'a str>)> {
    let (Word::Name(variable), mut rest) = words.split_first()? else { return None };
    let mut key = None;
    if let [Word::Mark('.'), Word::Name(name), behind @ ..]
    | [Word::Mark('['), Word::Text(name), Word::Mark(']'), behind @ ..] = rest
    {
        key = Some(*name);
        rest = behind;
    }
    while let Some(first) = rest.first() {
        rest = match first {
            Word::Mark('[') => behind_slice(rest)?,
            Word::Mark('|') => behind_call(rest.get(2..)?),
            Word::Name("is") => match &rest[1..] {
                [Word::Name("not"), Word::Name(_), behind @ ..] | [Word::Name(_), behind @ ..] => {
                    behind_call(behind)
                }
                _ => return None,
            },
            _ => return None,
        };
    }
    Some((variable, key))
}

/// What follows `[a:b]`; `None` where the bracket holds no slice.
fn behind_slice<'w, 'a>(words: &'w [Word<'a>]) -> Option<&'w [Word<'a>]> {
    let length = bracket_length(words);
    words[..length].contains(&Word::Mark(':')).then(|| &words[length..])
}

/// What follows the arguments of a filter or a test, where there are any.
fn behind_call<'w, 'a>(words: &'w [Word<'a>]) -> &'w [Word<'a>] {
    if words.first() == Some(&Word::Mark('(')) { &words[bracket_length(words)..] } else { words }
}

fn bracket_length(words: &[Word<'_>]) -> usize {
    let mut depth = 0usize;
    for (index, word) in words.iter().enumerate() {
        match word {
            Word::Mark('(' | '[' | '{') => depth += 1,
            Word::Mark(')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    words.len()
}

/// The arguments behind an opening parenthesis, up to its closing one.
fn arguments<'w, 'a>(words: &'w [Word<'a>]) -> Vec<&'w [Word<'a>]> {
    let mut found = Vec::new();
    let mut depth = 0usize;
    let mut start = 0;
    for (index, word) in words.iter().enumerate() {
        match word {
            Word::Mark('(' | '[' | '{') => depth += 1,
            Word::Mark(')') if depth == 0 => {
                found.push(&words[start..index]);
                break;
            }
            Word::Mark(')' | ']' | '}') => depth = depth.saturating_sub(1),
            Word::Mark(',') if depth == 0 => {
                found.push(&words[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes_parts(source: &str) -> bool {
        ContentFormat::detect(source) == ContentFormat::Parts
    }

    #[test]
    fn loops_over_content_take_parts() {
        for source in [
            "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}",
            "{%- for m in messages[1:] -%}{%- for part in m['content'] -%}{%- endfor -%}{%- endfor -%}",
            "{% set rest = messages[1:] %}{% set r2 = rest | list %}{% for m in r2 %}{% for p in m.content | selectattr('type', 'equalto', 'text') %}",
            "{% for m in messages if m.role %}{% for p in m.content if p.text %}",
            "{% for m in messages %}{% set content = m.content %}{% for item in content %}",
            "{% macro show(c, n=1) %}{% for x in c %}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m.content, 2) }}",
            "{% macro show(n, c) %}{% for x in c %}{% endfor %}{% endmacro %}{% for m in messages %}{% set t = show(1, c=m['content']) | trim %}",
        ] {
            assert!(takes_parts(source), "{source}");
        }
    }

    #[test]
    fn sglang_knows_three_variables_and_four_words() {
        for (source, expected) in [
            ("{% for message in messages %}{% for p in message['content'] %}", ContentFormat::Parts),
            ("{% for p in msg.content | selectattr('type') %}", ContentFormat::Parts),
            ("{% for p in m.content[1:] %}", ContentFormat::Parts),
            ("{{ message.content }} of an image", ContentFormat::Parts),
            ("{% for turn in messages %}{% for p in turn.content %}", ContentFormat::Text),
            ("{% for p in content %}", ContentFormat::Text),
        ] {
            assert_eq!(ContentFormat::detect_as_sglang(source), expected, "{source}");
        }
    }

    #[test]
    fn printed_content_is_text() {
        for source in [
            "{% for m in messages %}{{ m.content }}{% endfor %}",
            "{% for m in messages %}{% for call in m.tool_calls %}{{ call.name }}{% endfor %}{{ m['content'] | trim }}",
            "{% for m in messages %}{{ '{% for p in m.content %}' }}{% endfor %}",
            "{# {% for p in content %} #}",
            "{% for m in others %}{% for p in m.content %}",
            "{% macro show(content) %}{% for x in content %}{% endfor %}{% endmacro %}{{ show(1) }}",
            "{% macro show(c, n) %}{% for x in c %}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(1, m.content) }}",
            "{% for m in messages %}{% for p in m.content.parts %}",
            "{% for m in messages %}{% for p in m.content[0] %}",
        ] {
            assert!(!takes_parts(source), "{source}");
        }
    }
}
