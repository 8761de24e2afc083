//! Numbers of a report.
//!
//! A number is read, never repaired. What is absent stays absent and what is odd becomes [`Figure::Invalid`], because a
//! missing number that turned into zero would be indistinguishable from "nothing was reused".

use kvroute_core::Figure;

use super::object_or_skip;
use crate::{JsonError, JsonReader};

/// Prompt tokens and those among them that were not computed again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pair {
    pub(super) prompt: Figure,
    pub(super) reused: Figure,
}

/// The two members of an object; both are absent in what is no object.
pub(super) fn read_pair(reader: &mut JsonReader<'_>, prompt: &str, reused: &str) -> Result<Pair, JsonError> {
    let mut pair = Pair::default();
    object_or_skip(reader, |member, key| {
        if key == reused {
            pair.reused = read_figure(member)?;
        } else if key == prompt {
            pair.prompt = read_figure(member)?;
        } else {
            member.skip()?;
        }
        Ok(())
    })?;
    Ok(pair)
}

/// An unsigned integer as it is written: no sign, no fraction, no exponent.
pub(super) fn read_figure(reader: &mut JsonReader<'_>) -> Result<Figure, JsonError> {
    Ok(reader.skip()?.parse().map_or(Figure::Invalid, Figure::Count))
}

pub(super) fn sum(left: Figure, right: Figure) -> Figure {
    match (left, right) {
        (Figure::Count(left), Figure::Count(right)) => {
            left.checked_add(right).map_or(Figure::Invalid, Figure::Count)
        }
        (Figure::Invalid, _) | (_, Figure::Invalid) => Figure::Invalid,
        (Figure::Absent, _) | (_, Figure::Absent) => Figure::Absent,
    }
}
