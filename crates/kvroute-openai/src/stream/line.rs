//! Judges one line of a stream.

use super::UsageChunk;
use crate::Observation;
use crate::response::{PartReader, without_engine_data};

const FIELD: &[u8] = b"data:";

/// What happens to a line.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It passes as it is.
    Forward,
    /// It passes without what is private.
    Replace(Vec<u8>),
    /// It is taken out.
    Withhold,
}

/// Whether a line that starts with these bytes, in two pieces, can be a `data:` line.
pub(super) fn may_be_data(held: &[u8], tail: &[u8]) -> bool {
    held.iter().chain(tail).zip(FIELD).all(|(byte, expected)| byte == expected)
}

/// Judges a line that is not blank, without its ending.
pub(super) fn judge(
    line: &[u8],
    usage_chunk: UsageChunk,
    reader: &mut PartReader,
    observations: &mut Vec<Observation>,
) -> Verdict {
    let Some(value) = line.strip_prefix(FIELD) else { return Verdict::Forward };
    let data = value.trim_ascii();
    if data == b"[DONE]" {
        observations.push(Observation::Done);
        return Verdict::Forward;
    }
    let Ok(text) = std::str::from_utf8(data) else { return Verdict::Forward };
    let Some(part) = reader.read(text, observations) else { return Verdict::Forward };
    if part.is_usage_only && usage_chunk == UsageChunk::Withhold {
        return Verdict::Withhold;
    }
    if part.engine_data.is_empty() {
        return Verdict::Forward;
    }
    // A chunk that held nothing but the private report was the router's alone.
    match without_engine_data(text, &part) {
        Some(rest) => Verdict::Replace(around(line, data, &rest)),
        None => Verdict::Withhold,
    }
}

/// The line with `rest` in the place of its data.
fn around(line: &[u8], data: &[u8], rest: &str) -> Vec<u8> {
    let start = line.len() - line[FIELD.len()..].trim_ascii_start().len();
    [&line[..start], rest.as_bytes(), &line[start + data.len()..]].concat()
}
