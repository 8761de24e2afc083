//! Judges one line of a stream.

use super::UsageChunk;
use crate::Observation;
use crate::response::PartReader;

const FIELD: &[u8] = b"data:";

/// What happens to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It passes as it is.
    Forward,
    /// Another line passes in its place: without what is the router's alone.
    Replace,
    /// It is taken out.
    Withhold,
}

/// Whether a line that starts with these bytes, in two pieces, can be a `data:` line.
pub(super) fn may_be_data(held: &[u8], tail: &[u8]) -> bool {
    held.iter().chain(tail).zip(FIELD).all(|(byte, expected)| byte == expected)
}

/// Judges a line that is not blank, without its ending. What passes in its place is put into `edited`.
pub(super) fn judge(
    line: &[u8],
    usage_chunk: UsageChunk,
    reader: &mut PartReader,
    observations: &mut Vec<Observation>,
    edited: &mut Vec<u8>,
) -> Verdict {
    let Some(value) = line.strip_prefix(FIELD) else { return Verdict::Forward };
    let data = value.trim_ascii();
    if reader.is_alike(data, observations) {
        return Verdict::Forward;
    }
    if data == b"[DONE]" {
        observations.push(Observation::Done);
        return Verdict::Forward;
    }
    let read = std::str::from_utf8(data).ok().and_then(|text| Some((text, reader.read(text, observations)?)));
    let Some((text, part)) = read else {
        reader.unread();
        return Verdict::Forward;
    };
    let is_withheld_usage = part.is_usage_only && usage_chunk == UsageChunk::Withhold;
    // A chunk that held nothing but the private report was the router's alone.
    if is_withheld_usage || part.is_ids_only || part.is_private || part.is_withheld {
        return Verdict::Withhold;
    }
    if !part.is_edited {
        return Verdict::Forward;
    }
    let start = line.len() - value.trim_ascii_start().len();
    edited.clear();
    edited.extend_from_slice(&line[..start]);
    reader.write_edited(text, edited);
    edited.extend_from_slice(&line[start + data.len()..]);
    Verdict::Replace
}
