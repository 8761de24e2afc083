//! Where `stream_options.include_usage` and `return_token_ids` go into a body that lacks them.
//!
//! vLLM heeds `continuous_usage_stats` only beside `include_usage`. With usage injected it would put usage into every
//! chunk, which the client would not get without the router, so that member is switched off where it is.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::fields::{boolean, wrong_type};
use super::pieces::UpstreamBody;
use crate::{JsonKind, JsonReader, RequestError};

/// An edit of the body: these bytes become that text.
#[derive(Clone, Debug)]
pub(super) struct Injection {
    replaced: Range<usize>,
    text: &'static str,
    /// The value of `continuous_usage_stats`, where engines may take it for true.
    continuous: Option<Range<usize>>,
}

// === impl Injection ===

impl Injection {
    /// For a body without the field: a further member before the brace that closes it at `end`. There is always
    /// a member before it, because a request without a prompt is refused.
    pub(super) const fn new_options(end: usize) -> Self {
        Self::new(end..end, r#","stream_options":{"include_usage":true}"#)
    }

    /// The bytes that it replaces, and by what.
    pub(super) fn edits(&self) -> [Option<Edit>; 2] {
        let usage = (self.replaced.clone(), Cow::Borrowed(self.text));
        let continuous = self.continuous.clone().map(|value| (value, Cow::Borrowed("false")));
        [Some(usage), continuous]
    }

    const fn new(replaced: Range<usize>, text: &'static str) -> Self {
        Self { replaced, text, continuous: None }
    }
}

/// Bytes that become a text.
pub(super) type Edit = (Range<usize>, Cow<'static, str>);

/// Asks for token ids: in the place of what the client said there, or as a further member before the brace that closes the
/// body at `end`.
pub(super) fn ask_for_token_ids(said_at: Option<Range<usize>>, end: usize) -> Edit {
    match said_at {
        Some(value) => (value, Cow::Borrowed("true")),
        None => (end..end, Cow::Borrowed(r#","return_token_ids":true"#)),
    }
}

/// Applies edits that do not overlap, those of one place in the given order; without any, the very same bytes.
pub(super) fn splice<const N: usize>(body: &Bytes, edits: [Option<Edit>; N]) -> UpstreamBody {
    let mut edits: Vec<_> = edits.into_iter().flatten().collect();
    edits.sort_by_key(|(replaced, _)| replaced.start);
    let (mut edited, mut done) = (UpstreamBody::default(), 0);
    for (replaced, text) in edits {
        edited.push(body.slice(done..replaced.start));
        edited.push(match text {
            Cow::Borrowed(text) => Bytes::from_static(text.as_bytes()),
            Cow::Owned(text) => Bytes::from(text),
        });
        done = replaced.end;
    }
    edited.push(body.slice(done..));
    edited
}

/// Reads `stream_options`: whether usage was asked for, and where to ask for it.
pub(super) fn read_options(reader: &mut JsonReader<'_>) -> Result<(bool, Injection), RequestError> {
    let kind = reader.kind()?;
    let start = reader.position();
    match kind {
        JsonKind::Null => {
            reader.null()?;
            let replaced = start..reader.position();
            Ok((false, Injection::new(replaced, r#"{"include_usage":true}"#)))
        }
        JsonKind::Object => read_object(reader),
        other => Err(wrong_type("stream_options", other, "an object")),
    }
}

fn read_object(reader: &mut JsonReader<'_>) -> Result<(bool, Injection), RequestError> {
    let mut include_usage = false;
    let mut value_at = None;
    let mut continuous = None;
    let mut empty = true;
    reader.object(|member, key| {
        empty = false;
        let kind = member.kind()?;
        let start = member.position();
        match key {
            "include_usage" => {
                include_usage = boolean(member, "stream_options.include_usage")?.unwrap_or(false);
                value_at = Some(start..member.position());
            }
            "continuous_usage_stats" => {
                member.skip()?;
                continuous = may_be_true(kind).then(|| start..member.position());
            }
            _ => drop(member.skip()?),
        }
        Ok::<(), RequestError>(())
    })?;
    let end = reader.position() - 1;
    let injection = match value_at {
        Some(replaced) => Injection::new(replaced, "true"),
        None if empty => Injection::new(end..end, r#""include_usage":true"#),
        None => Injection::new(end..end, r#","include_usage":true"#),
    };
    Ok((include_usage, Injection { continuous, ..injection }))
}

/// Engines read `1` and `"yes"` as true; values of other kinds they refuse, which is for them to do.
const fn may_be_true(kind: JsonKind) -> bool {
    matches!(kind, JsonKind::Bool | JsonKind::Number | JsonKind::String)
}
