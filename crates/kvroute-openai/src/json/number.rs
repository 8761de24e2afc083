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

/// Length of the list at the start of `bytes`, whose opening bracket was seen; `None` where anything but whole numbers
/// below 2^32 and single spaces behind commas stands in it.
pub(super) fn plain_list(bytes: &[u8], number: &mut impl FnMut(u32)) -> Option<usize> {
    let mut at = 1;
    if bytes.get(at) == Some(&b']') {
        return Some(at + 1);
    }
    loop {
        let (value, digits) = plain_number(&bytes[at..])?;
        number(value);
        at += digits;
        match bytes.get(at)? {
            b']' => return Some(at + 1),
            b',' => at += 1 + usize::from(bytes.get(at + 1) == Some(&b' ')),
            _ => return None,
        }
    }
}

/// The number at the start, and its digits.
fn plain_number(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut value = 0u32;
    let mut at = 0;
    while let Some(digit @ b'0'..=b'9') = bytes.get(at) {
        value = value.checked_mul(10)?.checked_add(u32::from(digit - b'0'))?;
        at += 1;
    }
    let is_plain = at == 1 || (at > 1 && bytes[0] != b'0');
    is_plain.then_some((value, at))
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn at_least_one(count: usize) -> Option<usize> {
    (count > 0).then_some(count)
}
