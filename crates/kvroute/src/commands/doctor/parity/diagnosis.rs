//! What differences between ids mean.

use kvroute_core::TokenId;

use super::{CaseKind, Outcome, ParityCheck};

/// Ids shown at a difference.
const SHOWN: usize = 1;

/// The first position at which two encodings of a prompt part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) position: usize,
    /// The id there and its text; `None` where the list has ended.
    pub(crate) ours: Option<(TokenId, String)>,
    /// The same at the engine, with the text that the tokenizer here has for it.
    pub(crate) theirs: Option<(TokenId, String)>,
    pub(crate) shape: Shape,
}

/// How the lists differ as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The engine has one special token more, at the very beginning.
    TheyBegin,
    /// We have one special token more, at the very beginning.
    WeBegin,
    /// Anything else.
    Other,
}

/// What is wrong with a group of prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) cause: Cause,
    /// The prompts that it shows in.
    pub(crate) names: Vec<&'static str>,
    /// In the first of them.
    pub(crate) difference: Difference,
}

/// Why ids differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Plain words become other ids.
    OtherTokenizer,
    /// All that differs is one id at the beginning, which the engine adds and we do not.
    MissingBegin,
    /// All that differs is one id at the beginning, which we add and the engine does not.
    ExtraBegin,
    /// The simplest chats become other ids, and text does not.
    OtherTemplate,
    /// Only some prompts do: how they are prepared differs.
    Preparation,
}

// === impl Difference ===

impl Difference {
    /// The first difference, with the texts of its ids. Only a special token can be what a tokenizer begins texts with; any
    /// other at the beginning is something that a template writes.
    pub(crate) fn between(
        ours: &[TokenId],
        theirs: &[TokenId],
        text: impl Fn(&[TokenId]) -> String,
        is_special: impl Fn(TokenId) -> bool,
    ) -> Option<Self> {
        if ours == theirs {
            return None;
        }
        let equal = ours.iter().zip(theirs).take_while(|(our, their)| our == their).count();
        let shown = |ids: &[TokenId]| {
            let shown = ids.get(equal..equal + SHOWN)?;
            Some((*shown.first()?, text(shown)))
        };
        let shape = match (ours, theirs) {
            (_, [first, rest @ ..]) if rest == ours && is_special(*first) => Shape::TheyBegin,
            ([first, rest @ ..], _) if rest == theirs && is_special(*first) => Shape::WeBegin,
            _ => Shape::Other,
        };
        Some(Self { position: equal, ours: shown(ours), theirs: shown(theirs), shape })
    }
}

// === impl Fault ===

impl Fault {
    fn of<'a>(
        cause: Cause,
        differing: impl Iterator<Item = (&'static str, CaseKind, &'a Difference)>,
    ) -> Option<Self> {
        let (names, differences): (Vec<_>, Vec<_>) = differing.map(|(name, _, found)| (name, found)).unzip();
        let difference = (*differences.first()?).clone();
        Some(Self { cause, names, difference })
    }
}

// === impl ParityCheck ===

impl ParityCheck {
    /// What is wrong, one fault a cause. Where plain words differ, all else follows from that.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let of_shape = |shape| self.differing().filter(move |(_, _, found)| found.shape == shape);
        let others: Vec<_> = of_shape(Shape::Other).collect();
        let has = |wanted| others.iter().any(|(_, kind, _)| *kind == wanted);
        let cause = match () {
            () if has(CaseKind::PlainText) => {
                return Fault::of(Cause::OtherTokenizer, self.differing()).into_iter().collect();
            }
            () if has(CaseKind::PlainChat) => Cause::OtherTemplate,
            () => Cause::Preparation,
        };
        let faults = [
            Fault::of(Cause::MissingBegin, of_shape(Shape::TheyBegin)),
            Fault::of(Cause::ExtraBegin, of_shape(Shape::WeBegin)),
            Fault::of(cause, others.into_iter()),
        ];
        faults.into_iter().flatten().collect()
    }

    /// Whether the engine tokenizes nothing for others, so that nothing could be compared.
    pub(crate) fn is_unsupported(&self) -> bool {
        self.cases.iter().all(|case| matches!(case.outcome, Outcome::Unsupported))
    }

    /// Prompts that the engine takes and that could not be encoded here, by name and with the reason.
    pub(crate) fn not_here(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.cases.iter().filter_map(|case| match &case.outcome {
            Outcome::NotHere(problem) => Some((case.name, problem.as_str())),
            _ => None,
        })
    }

    /// Prompts that were encoded here and not at the engine.
    pub(crate) fn not_there(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.cases.iter().filter_map(|case| match &case.outcome {
            Outcome::NotThere(problem) => Some((case.name, problem.as_str())),
            _ => None,
        })
    }

    fn differing(&self) -> impl Iterator<Item = (&'static str, CaseKind, &Difference)> {
        self.cases.iter().filter_map(|case| match &case.outcome {
            Outcome::Differs(difference) => Some((case.name, case.kind, difference)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
