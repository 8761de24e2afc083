//! The number grammar.

/// Length of the number at the start of `bytes`; `None` where none stands there.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    at += match bytes.get(at)? {
        b'0' => 1,
        b'1'..=b'9' => digits(&bytes[at..]),
        _ => return None,
    };
    if bytes.get(at) == Some(&b'.') {
        at += 1 + at_least_one(digits(&bytes[at + 1..]))?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at += 1 + sign;
        at += at_least_one(digits(&bytes[at..]))?;
    }
    Some(at)
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn at_least_one(count: usize) -> Option<usize> {
    (count > 0).then_some(count)
}
