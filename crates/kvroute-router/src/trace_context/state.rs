//! The `tracestate` header: what the tracing systems on the way have added, for each other.
//!
//! The router adds nothing of its own. It only sees to it that a worker gets one header, well-formed and of a size that
//! every implementation takes, however many the client sent.

use http::HeaderValue;

/// Members that a header may have.
const MOST_MEMBERS: usize = 32;

/// Characters that everybody passes on; more may be cut.
const LONGEST: usize = 512;

/// A member longer than this is the first to go where it gets too long.
const LONG_MEMBER: usize = 128;

/// Characters of a key, and of a value.
const LONGEST_PART: usize = 256;

/// A member and its key.
type Member<'a> = (&'a [u8], &'a [u8]);

/// All of the headers as one; `None` if there is nothing in them, or if they are not what the standard allows.
pub(super) fn joined<'a>(headers: impl IntoIterator<Item = &'a HeaderValue>) -> Option<HeaderValue> {
    let mut members: Vec<Member<'_>> = Vec::new();
    for header in headers {
        let separated = header.as_bytes().split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        // An empty member is allowed: whoever joins headers may leave one behind.
        for member in separated.filter(|member| !member.is_empty()) {
            let key = key_of(member)?;
            if members.len() == MOST_MEMBERS || members.iter().any(|(other, _)| *other == key) {
                return None;
            }
            members.push((key, member));
        }
    }
    shorten(&mut members);
    let texts: Vec<_> = members.into_iter().map(|(_, member)| member).collect();
    HeaderValue::from_bytes(&texts.join(&b","[..])).ok().filter(|joined| !joined.is_empty())
}

/// Takes out long members from the end on, and then any from the end on, until it is short enough.
fn shorten(members: &mut Vec<Member<'_>>) {
    // A comma behind each but the last.
    while members.iter().map(|(_, member)| member.len() + 1).sum::<usize>() > LONGEST + 1 {
        let last = members.len() - 1;
        let long = members.iter().rposition(|(_, member)| member.len() > LONG_MEMBER);
        members.remove(long.unwrap_or(last));
    }
}

/// The key of a member; `None` if the member is malformed.
fn key_of(member: &[u8]) -> Option<&[u8]> {
    let equals = member.iter().position(|&byte| byte == b'=')?;
    let (key, value) = (&member[..equals], &member[equals + 1..]);
    let is_key =
        key.first().is_some_and(|&first| is_alphanumeric(first)) && key.iter().all(|&byte| is_of_key(byte));
    let is_value = !value.is_empty() && value.iter().all(|&byte| is_of_value(byte));
    (is_key && is_value && key.len() <= LONGEST_PART && value.len() <= LONGEST_PART).then_some(key)
}

const fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

const fn is_of_key(byte: u8) -> bool {
    is_alphanumeric(byte) || matches!(byte, b'_' | b'-' | b'*' | b'/' | b'@')
}

const fn is_of_value(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'=')
}
