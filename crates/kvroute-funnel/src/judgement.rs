//! What a worker's report is worth.
//!
//! A report is never repaired: no clamp to the prompt, no zero for a missing number. It is counted as it
//! stands or not at all, and the outcome says which, so that "reused nothing" and "said nothing" can be told
//! apart. The prompt length is the proof that worker and router speak of the same prompt.

use kvroute_core::{Figure, ReportSource, Tokens, WorkerReport, invariants};

use crate::{Count, Delivery, Opening, ReportExpectation};

/// The one outcome of an attempt's reports, in the order in which they are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportOutcome {
    /// Decode leg of a disaggregated request: not asked.
    Excluded,
    /// A prompt list on an engine that reports only one prompt's reuse.
    Ambiguous,
    /// Valid, of an attempt whose prompt was not counted.
    Unchecked,
    /// Valid, but more reused than the prompt has.
    Impossible,
    /// Valid and not above the prompt.
    Reported,
    /// The engine counts another prompt length than the router.
    Mismatched,
    /// Null, negative, fraction, text, overflow, or half of the pair missing.
    Invalid,
    /// Failed or cancelled before any report.
    Unfinished,
    /// Completed without any report.
    Missing,
}

/// What an attempt's outcome adds to the totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The outcome.
    pub outcome: ReportOutcome,
    /// F4: what the engine says it reused, uncapped. `None` where the outcome adds nothing.
    pub reused: Option<Tokens>,
    /// Input of the attempt if its report was counted, else zero.
    pub reported_input: Tokens,
    /// Input of the attempt if it could have reported, else zero; zero too where nobody knows the input.
    pub expected_input: Tokens,
    /// F3 held against F4: of a [`ReportOutcome::Reported`] attempt that was opened with the terms for it.
    pub delivery: Option<Delivery>,
}

/// What one report says about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// To be counted.
    Valid { reused: Tokens, prompt: Tokens },
    /// Another prompt length than the router's.
    Mismatched,
    /// No usable pair of numbers.
    Invalid,
    /// Nothing about reuse: what engines send whose reporting is switched off.
    Silent,
}

/// Largest count that is believed: what the doubles of a metric hold exactly. Beyond it is an overflow.
const LARGEST_COUNT: u64 = 1 << 53;

// === impl ReportOutcome ===

impl ReportOutcome {
    /// Every outcome, in order of precedence.
    pub const ALL: [Self; 9] = [
        Self::Excluded,
        Self::Ambiguous,
        Self::Unchecked,
        Self::Impossible,
        Self::Reported,
        Self::Mismatched,
        Self::Invalid,
        Self::Unfinished,
        Self::Missing,
    ];

    /// The label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Excluded => "excluded",
            Self::Ambiguous => "ambiguous",
            Self::Unchecked => "unchecked",
            Self::Impossible => "impossible",
            Self::Reported => "reported",
            Self::Mismatched => "mismatched",
            Self::Invalid => "invalid",
            Self::Unfinished => "unfinished",
            Self::Missing => "missing",
        }
    }

    /// Whether the report of such an attempt is added to F4.
    pub const fn adds_reuse(self) -> bool {
        matches!(self, Self::Unchecked | Self::Impossible | Self::Reported)
    }

    /// Whether such an attempt could have reported.
    pub const fn could_report(self) -> bool {
        !matches!(self, Self::Excluded | Self::Ambiguous | Self::Unfinished)
    }
}

// === impl Judgement ===

impl Judgement {
    /// Of a valid report.
    pub(crate) fn counted(opening: &Opening, reused: Tokens, prompt: Tokens) -> Self {
        let outcome = match opening.count {
            Count::Uncounted(_) => ReportOutcome::Unchecked,
            Count::Exact { input, .. } if reused > input => ReportOutcome::Impossible,
            Count::Exact { .. } => ReportOutcome::Reported,
        };
        let delivery = match outcome {
            ReportOutcome::Reported => delivery(opening, reused),
            _ => None,
        };
        Self { outcome, reused: Some(reused), reported_input: prompt, expected_input: prompt, delivery }
    }

    /// Of an attempt without a valid report. `engine_input` is the engine's own count of the prompt, which
    /// stands in where the router has none.
    pub(crate) fn without_report(
        outcome: ReportOutcome,
        opening: &Opening,
        engine_input: Option<Tokens>,
    ) -> Self {
        let input = opening.count.input().or(engine_input).unwrap_or_default();
        let expected_input = if outcome.could_report() { input } else { Tokens::ZERO };
        Self { outcome, reused: None, reported_input: Tokens::ZERO, expected_input, delivery: None }
    }

    /// Tokens that a [`ReportOutcome::Reported`] attempt had to compute: F0 − F4.
    pub fn uncached(&self) -> Option<Tokens> {
        match (self.outcome, self.reused) {
            (ReportOutcome::Reported, Some(reused)) => Some(self.reported_input - reused),
            _ => None,
        }
    }

    /// True unless the numbers contradict the outcome or coverage would exceed 1.
    pub fn is_consistent(&self) -> bool {
        invariants::reported_input_was_expected(self.reported_input, self.expected_input)
            && self.reused.is_some() == self.outcome.adds_reuse()
            && (self.reused.is_some() || self.reported_input.is_zero())
            && (self.outcome.could_report() || self.expected_input.is_zero())
            && self.delivery.is_none_or(|delivery| {
                self.outcome == ReportOutcome::Reported
                    && self.reused == Some(delivery.reported)
                    && delivery.is_consistent()
            })
    }
}

// === impl Reading ===

impl Reading {
    /// Reads one report of an attempt that expects reports.
    pub(crate) fn of(report: &WorkerReport, opening: &Opening) -> Self {
        if report.reused == Figure::Absent && report.source != ReportSource::EngineData {
            return Self::Silent;
        }
        let prompt = believable(report.prompt);
        if let (Some(input), Some(counted)) = (opening.count.input(), prompt)
            && counted != input
        {
            return Self::Mismatched;
        }
        match (believable(report.reused), prompt) {
            (Some(reused), Some(counted)) => Self::Valid { reused, prompt: counted },
            _ => Self::Invalid,
        }
    }
}

/// What was promised against what was reused, where the attempt has both.
fn delivery(opening: &Opening, reused: Tokens) -> Option<Delivery> {
    let (ledger, cached) = opening.ledger.zip(opening.count.cached())?;
    Some(Delivery::of(ledger.reusable, cached.selected, reused))
}

/// The outcome of an attempt that no report can change.
pub(crate) const fn settled_by_opening(opening: &Opening) -> Option<ReportOutcome> {
    match opening.reports {
        ReportExpectation::Excluded => Some(ReportOutcome::Excluded),
        ReportExpectation::Ambiguous => Some(ReportOutcome::Ambiguous),
        ReportExpectation::Expected => None,
    }
}

/// A count that can be one.
pub(crate) fn believable(figure: Figure) -> Option<Tokens> {
    figure.count().filter(|&count| count <= LARGEST_COUNT).map(Tokens::new)
}
