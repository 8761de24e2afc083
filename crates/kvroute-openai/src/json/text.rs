//! Strings: finding their end, and decoding escapes.

/// A string whose end was found.
pub(super) struct Scanned {
    /// Bytes before the closing quote.
    pub(super) length: usize,
    /// Whether it holds escapes.
    pub(super) escaped: bool,
}

/// A string that breaks the grammar.
pub(super) struct Problem {
    /// Bytes before the place.
    pub(super) at: usize,
    /// What is wrong there.
    pub(super) what: &'static str,
}

/// Finds the closing quote of a string whose opening quote was just read, and checks its escapes.
pub(super) fn scan(bytes: &[u8]) -> Result<Scanned, Problem> {
    let mut at = 0;
    let mut escaped = false;
    loop {
        at += plain_run(&bytes[at..]);
        match bytes.get(at) {
            None => return Err(Problem { at, what: "unexpected end inside a string" }),
            Some(b'"') => return Ok(Scanned { length: at, escaped }),
            Some(b'\\') => {}
            Some(_) => return Err(Problem { at, what: "raw control character in a string" }),
        }
        escaped = true;
        match escape_length(&bytes[at..]) {
            Some(length) => at += length,
            None => return Err(Problem { at, what: "invalid escape in a string" }),
        }
    }
}

/// Bytes of the string that begins here, up to its closing quote; `None` for what is no string.
pub(crate) fn string_length(text: &[u8]) -> Option<usize> {
    scan(text).ok().map(|scanned| scanned.length)
}

/// Most strings are shorter; there is nothing to gain by a search that is faster in the long run.
const SHORT: usize = 32;

/// Bytes before the first quote, backslash or control character.
fn plain_run(bytes: &[u8]) -> usize {
    let (start, rest) = bytes.split_at(bytes.len().min(SHORT));
    let run = plain_run_of_words(start);
    if run < start.len() {
        return run;
    }
    let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    run + run_without_controls(&rest[..end])
}

/// The same, eight bytes at a time.
fn plain_run_of_words(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let quote = word ^ (ONES * b'"' as u64);
        let backslash = word ^ (ONES * b'\\' as u64);
        // A byte below the subtrahend borrows into its high bit. A borrow can only spoil bytes behind the
        // first hit, which is the one that is looked for.
        let special = (word.wrapping_sub(ONES * 0x20) & !word)
            | (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash);
        let hits = special & HIGH;
        if hits != 0 {
            return index * 8 + hits.trailing_zeros() as usize / 8;
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
    words.len() * 8 + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// Bytes before the first control character. Blocks are looked at whole, which the compiler turns into a few instructions.
fn run_without_controls(bytes: &[u8]) -> usize {
    let (blocks, _rest) = bytes.as_chunks::<64>();
    let has_none = |block: &&[u8; 64]| block.iter().fold(u8::MAX, |least, byte| least.min(*byte)) >= 0x20;
    let start = 64 * blocks.iter().take_while(has_none).count();
    let rest = &bytes[start..];
    start + rest.iter().position(|byte| *byte < 0x20).unwrap_or(rest.len())
}

fn escape_length(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => bytes.get(2..6)?.iter().all(u8::is_ascii_hexdigit).then_some(6),
        _ => None,
    }
}

/// Decodes the text between the quotes, whose escapes [`scan`] has checked. `None` for a lone surrogate.
pub(super) fn unescape(raw: &str) -> Option<String> {
    let mut decoded = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        decoded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let letter = rest.as_bytes().first()?;
        rest = &rest[1..];
        decoded.push(match letter {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let (character, length) = code_point(rest)?;
                rest = &rest[length..];
                character
            }
            other => char::from(*other),
        });
    }
    decoded.push_str(rest);
    Some(decoded)
}

/// The character of `XXXX` or of the pair `XXXX\uXXXX`, and how many bytes were read.
fn code_point(rest: &str) -> Option<(char, usize)> {
    let unit = hex(rest.get(..4)?)?;
    if let Some(character) = char::from_u32(unit) {
        return Some((character, 4));
    }
    let low = hex(rest.get(4..)?.strip_prefix("\\u")?.get(..4)?)?;
    if !(0xD800..0xDC00).contains(&unit) || !(0xDC00..0xE000).contains(&low) {
        return None;
    }
    let combined = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    char::from_u32(combined).map(|character| (character, 10))
}

fn hex(digits: &str) -> Option<u32> {
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::plain_run;

    proptest! {
        #[test]
        fn a_plain_run_ends_at_the_first_special_byte(
            bytes in prop::collection::vec(
                prop_oneof![8 => 0x20u8.., 1 => prop::sample::select(vec![b'"', b'\\', 0, 0x1f, 0x7f, 0x80, 0xff])],
                0..60,
            ),
        ) {
            let first = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20));
            prop_assert_eq!(plain_run(&bytes), first.unwrap_or(bytes.len()));
        }

        #[test]
        fn a_long_plain_run_ends_at_the_first_special_byte(
            mut bytes in prop::collection::vec(0x23u8..0x5c, 0..400),
            specials in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(vec![b'"', b'\\', 0, 0x1f])), 0..3),
        ) {
            for (place, special) in specials {
                if !bytes.is_empty() {
                    let place = place.index(bytes.len());
                    bytes[place] = special;
                }
            }
            let first = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20));
            prop_assert_eq!(plain_run(&bytes), first.unwrap_or(bytes.len()));
        }
    }
}
