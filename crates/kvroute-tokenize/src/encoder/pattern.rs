//! The patterns by which byte-pair tokenizers take text apart, matched without backtracking.
//!
//! Their last words are always the same: a run of white space is a word, but gives its last character to a word that
//! follows. The library's regular expressions need a look ahead for this, which makes them slow. Here the run is an
//! alternative of its own, found by an automaton like all others, and the character is given back by hand.

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::pool::Pool;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind, meta};

/// How such a pattern ends.
const RUN_OF_BLANKS: &str = r"|\s+(?!\S)|\s+";
/// Which of the automaton's patterns is the run of white space.
const RUN: usize = 1;
/// Memory of the automaton's states, which are made as they are needed.
const STATES: usize = 8 * 1024 * 1024;

/// A pattern that cuts a text into matches and what stands between them.
#[derive(Debug)]
pub(super) enum Pattern {
    /// With the usual end: nearly all of a text is matches.
    Words(Box<WordPattern>),
    /// Anything else that needs no look around.
    Other(meta::Regex),
}

/// A pattern with the usual end.
#[derive(Debug)]
pub(super) struct WordPattern {
    automaton: DFA,
    caches: Pool<Cache, Box<dyn Fn() -> Cache + Send + Sync>>,
}

/// The search cannot go on by this automaton.
#[derive(Debug)]
pub(super) struct GivenUp;

// === impl Pattern ===

impl Pattern {
    /// Reads a pattern; `None` where it is written in words that mean something else here.
    pub(super) fn parse(source: &str) -> Option<Self> {
        if let Some(head) = source.strip_suffix(RUN_OF_BLANKS) {
            return Some(Self::Words(Box::new(WordPattern::new(head)?)));
        }
        is_common_language(source).then(|| meta::Regex::new(source).ok())?.map(Self::Other)
    }

    /// Calls `take` with each piece of a text, in order; none is empty.
    pub(super) fn cut<'t>(&self, text: &'t str, take: &mut dyn FnMut(&'t str)) -> Result<(), GivenUp> {
        match self {
            Self::Words(pattern) => pattern.cut(text, take),
            Self::Other(regex) => cut_by(regex, text, take),
        }
    }
}

fn cut_by<'t>(regex: &meta::Regex, text: &'t str, take: &mut dyn FnMut(&'t str)) -> Result<(), GivenUp> {
    let mut at = 0;
    for found in regex.find_iter(text) {
        if found.is_empty() {
            return Err(GivenUp);
        }
        if at < found.start() {
            take(&text[at..found.start()]);
        }
        take(&text[found.range()]);
        at = found.end();
    }
    if at < text.len() {
        take(&text[at..]);
    }
    Ok(())
}

// === impl WordPattern ===

impl WordPattern {
    fn new(head: &str) -> Option<Self> {
        if !is_common_language(head) {
            return None;
        }
        let automaton = DFA::builder()
            .configure(
                DFA::config()
                    .match_kind(MatchKind::LeftmostFirst)
                    .cache_capacity(STATES)
                    .skip_cache_capacity_check(true),
            )
            .thompson(thompson::Config::new().which_captures(thompson::WhichCaptures::None))
            .syntax(syntax::Config::new())
            .build_many(&[head, r"\s+"])
            .ok()?;
        let for_caches = automaton.clone();
        let caches: Box<dyn Fn() -> Cache + Send + Sync> = Box::new(move || for_caches.create_cache());
        Some(Self { automaton, caches: Pool::new(caches) })
    }

    fn cut<'t>(&self, text: &'t str, take: &mut dyn FnMut(&'t str)) -> Result<(), GivenUp> {
        let mut cache = self.caches.get();
        let mut at = 0;
        let mut unmatched = 0;
        while at < text.len() {
            let Some(end) = self.match_at(&mut cache, text, at)? else {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            };
            if unmatched < at {
                take(&text[unmatched..at]);
            }
            take(&text[at..end]);
            at = end;
            unmatched = end;
        }
        if unmatched < text.len() {
            take(&text[unmatched..]);
        }
        Ok(())
    }

    /// The end of a match that starts here.
    fn match_at(&self, cache: &mut Cache, text: &str, at: usize) -> Result<Option<usize>, GivenUp> {
        let input = Input::new(text).range(at..).anchored(Anchored::Yes);
        let found = self.automaton.try_search_fwd(cache, &input).map_err(|_| GivenUp)?;
        let Some(found) = found else { return Ok(None) };
        let end = found.offset();
        if end == at {
            return Err(GivenUp);
        }
        if found.pattern().as_usize() != RUN || end == text.len() {
            return Ok(Some(end));
        }
        let last = text[at..end].chars().next_back().map_or(0, char::len_utf8);
        Ok(Some(if end - last > at { end - last } else { end }))
    }
}

/// Whether a pattern means the same to the library's regular expressions and to these: nothing that looks around or
/// never gives back, which would be read as something else or not at all.
fn is_common_language(source: &str) -> bool {
    let mut is_in_class = false;
    let mut behind_quantifier = false;
    let mut characters = source.chars().peekable();
    while let Some(character) = characters.next() {
        let is_quantifier = matches!(character, '+' | '*' | '?' | '}') && !is_in_class;
        match character {
            '\\' => match characters.next() {
                Some('p' | 'P') if characters.peek() == Some(&'{') => {
                    // The bracket behind the name of a class is no quantifier.
                    characters.by_ref().find(|next| *next == '}');
                }
                Some('s' | 'S' | 'd' | 'D' | 'w' | 'W' | 'r' | 'n' | 't') => {}
                Some(escaped) if escaped.is_ascii_punctuation() => {}
                _ => return false,
            },
            '[' if is_in_class => return false,
            '[' => is_in_class = true,
            ']' => is_in_class = false,
            '&' | '~' | '-' if is_in_class && characters.peek() == Some(&character) => return false,
            '+' if behind_quantifier && !is_in_class => return false,
            '(' if !is_in_class && characters.peek() == Some(&'?') => {
                characters.next();
                let flags: String =
                    std::iter::from_fn(|| characters.next_if(|next| *next != ':' && *next != ')')).collect();
                if !matches!(flags.as_str(), "" | "i") || characters.next() != Some(':') {
                    return false;
                }
            }
            '^' | '$' if !is_in_class => return false,
            _ => {}
        }
        behind_quantifier = is_quantifier;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(source: &str, text: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        Pattern::parse(source).unwrap().cut(text, &mut |piece| pieces.push(piece.to_owned())).unwrap();
        pieces
    }

    #[test]
    fn a_run_of_blanks_gives_its_last_one_to_what_follows() {
        let source = r" ?\w+|\s*[\r\n]+|\s+(?!\S)|\s+";
        assert_eq!(pieces(source, "a   b \n c  "), ["a", "  ", " b", " \n", " c", "  "]);
        assert_eq!(pieces(source, "\t-\t\t-"), ["\t", "-", "\t", "\t", "-"]);
        assert_eq!(pieces(r"\w|\s+(?!\S)|\s+", "\u{3000}\u{3000}a"), ["\u{3000}", "\u{3000}", "a"]);
    }

    #[test]
    fn what_stands_between_matches_is_a_piece_too() {
        assert_eq!(pieces(r"\p{N}{1,3}", "ab1234c"), ["ab", "123", "4", "c"]);
        assert_eq!(pieces(r"x|\s+(?!\S)|\s+", "abx c"), ["ab", "x", " ", "c"]);
    }

    /// Those of Qwen, Llama 3, gpt-oss and DeepSeek-V3.
    #[test]
    fn the_patterns_of_common_models_are_understood() {
        let letters =
            r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        for source in [
            &format!("(?i:'s|'t|'re|'ve|'m|'ll|'d)|{letters}"),
            &letters.replace(r"\p{N}{1,3}", r"\p{N}"),
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{M}]*[\p{Ll}\p{M}]+(?i:'s|'t)?| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
        ] {
            assert!(matches!(Pattern::parse(source), Some(Pattern::Words(_))), "{source}");
        }
        for source in [r"\p{N}{1,3}", "[一-龥\u{3040}-ゟ゠-ヿ]+"] {
            assert!(matches!(Pattern::parse(source), Some(Pattern::Other(_))), "{source}");
        }
    }

    #[test]
    fn what_means_something_else_here_is_refused() {
        for source in [
            r"a++", r"a?+b", r"(?=a)", r"(?<!a)b", r"\bx", r"a{2}+", r"(?>a)", r"^a", r"a$", r"[a&&b]",
            r"\h", r"(?m:a)", r"(?i)a",
        ] {
            assert!(Pattern::parse(source).is_none(), "{source}");
            assert!(Pattern::parse(&format!("{source}{RUN_OF_BLANKS}")).is_none(), "{source}");
        }
        assert!(Pattern::parse(r"[*+\-./:;?]+[A-Za-z]|(?i:'s)|\+").is_some());
    }
}
