//! Sets and removes members of a body, whatever the client said there.

use bytes::Bytes;

use crate::edits::Edits;
use crate::{JsonError, JsonReader};

/// A top-level member and the raw JSON that it becomes; without any it is taken out.
pub(super) type Member<'a> = (&'a str, Option<&'a str>);

/// The body, a JSON object, with these members. A key that is written several times becomes the same everywhere, so that
/// it does not matter which of them an engine believes.
pub(super) fn set(body: &Bytes, members: &[Member<'_>]) -> Bytes {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let Ok(mut edits) = edits(text, members) else { return body.clone() };
    if edits.is_empty() {
        return body.clone();
    }
    let mut edited = Vec::with_capacity(body.len() + added(members));
    edits.write(text, &mut edited);
    Bytes::from(edited)
}

fn edits(text: &str, members: &[Member<'_>]) -> Result<Edits, JsonError> {
    let mut edits = Edits::default();
    let mut written = vec![false; members.len()];
    let mut kept = 0;
    let mut reader = JsonReader::new(text);
    reader.object(|member, key| {
        member.kind()?;
        let start = member.position();
        member.skip()?;
        let place = start..member.position();
        let Some(at) = members.iter().rposition(|(name, _)| *name == key) else {
            kept += 1;
            return Ok(());
        };
        written[at] = true;
        match members[at].1 {
            Some(value) => {
                kept += 1;
                edits.replace(place, value.to_owned());
            }
            None => edits.remove_member(place),
        }
        Ok::<(), JsonError>(())
    })?;
    let end = reader.position() - 1;
    for (at, (name, value)) in members.iter().enumerate() {
        let is_last_word = members[at + 1..].iter().all(|(later, _)| later != name);
        if let (Some(value), false, true) = (value, written[at], is_last_word) {
            let comma = if kept > 0 { "," } else { "" };
            edits.replace(end..end, format!("{comma}{}:{value}", serde_json::Value::from(*name)));
            kept += 1;
        }
    }
    Ok(edits)
}

fn added(members: &[Member<'_>]) -> usize {
    const PUNCTUATION: usize = 4;
    members.iter().map(|(name, value)| name.len() + value.map_or(0, str::len) + PUNCTUATION).sum()
}

#[cfg(test)]
mod tests;
