//! What the comparisons with one worker's engine say together: evidence in, state out. No clock, no I/O.
//!
//! One prompt that differs says little: every engine has corners in which it prepares a chat in its own way, and a pool must
//! not be condemned for one odd request. So what is judged is the latest comparisons of *different* prompts of one kind, and
//! a repeated prompt counts once. Where nothing of the kind was equal yet, one prompt with other ids is a mismatch, or two
//! of other lengths; where the kind is proven it takes two with other ids, or half of the latest ones with other lengths.
//!
//! Equal lengths are weaker than equal ids: another vocabulary may have the same lengths. They prove only several together,
//! and never outweigh ids that differed.

use std::collections::VecDeque;

use kvroute_metrics::IdentityState;

use super::evidence::{Evidence, Finding, PromptKind};
use super::reuse::ReuseDoubt;

/// Comparisons of a kind that are looked at together, of ids and of lengths each.
const WINDOW: usize = 8;

/// Prompts of equal length that prove a kind where ids cannot be had.
const PROVING_LENGTHS: usize = 3;

/// Weight of differing prompts that is a mismatch.
const CONDEMNING: usize = 4;

/// Equal prompts in a row that take a mismatch back.
const CLEARING: usize = 4;

/// All that is known of one worker.
#[derive(Debug, Default)]
pub(crate) struct WorkerIdentity {
    kinds: [KindEvidence; PromptKind::ALL.len()],
    reuse: ReuseDoubt,
    /// Why the engine could not be asked, if it never could.
    unanswered: Option<String>,
}

/// The comparisons of one kind of prompt, apart by what was compared: lengths come with all traffic, ids with a sample of
/// it, and would be pushed out.
#[derive(Debug, Default)]
struct KindEvidence {
    ids: VecDeque<Evidence>,
    lengths: VecDeque<Evidence>,
    verdict: Verdict,
}

/// What the comparisons of a kind say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing yet, or too little.
    #[default]
    Unproven,
    /// The router's tokens are the engine's.
    Proven {
        /// Ids were equal, and not only lengths.
        by_ids: bool,
    },
    /// They are not: the latest difference.
    Mismatch(Finding),
}

// === impl WorkerIdentity ===

impl WorkerIdentity {
    /// Takes a comparison; true if the verdict about its kind changed.
    pub(crate) fn add(&mut self, evidence: Evidence) -> bool {
        self.kinds[evidence.kind as usize].add(evidence)
    }

    /// The engine was asked in vain.
    pub(crate) fn could_not_ask(&mut self, why: impl Into<String>) {
        self.unanswered = Some(why.into());
    }

    /// What its engine reuses beside what the index knows.
    pub(crate) const fn reuse(&mut self) -> &mut ReuseDoubt {
        &mut self.reuse
    }

    /// What is known of a kind.
    pub(crate) fn verdict(&self, kind: PromptKind) -> Verdict {
        self.kinds[kind as usize].verdict
    }

    /// All kinds together: what was never compared says nothing, one mismatch says it all.
    pub(crate) fn state(&self) -> IdentityState {
        let verdicts = || self.compared().map(|(_, kind)| kind.verdict);
        if verdicts().any(Verdict::is_mismatch) {
            return IdentityState::Mismatch;
        }
        let is_known = verdicts().next().is_some() && verdicts().all(Verdict::is_proven);
        if is_known && !self.reuse.is_serious() { IdentityState::Proven } else { IdentityState::Unproven }
    }

    /// Why it is in this state, in words.
    pub(crate) fn reason(&self) -> String {
        let kinds = self.compared().map(|(name, kind)| format!("{}: {}", name.as_str(), kind.reason()));
        let doubt = self.reuse.is_serious().then(|| ReuseDoubt::DIAGNOSIS.to_owned());
        let words: Vec<_> = kinds.chain(doubt).collect();
        match &self.unanswered {
            _ if !words.is_empty() => words.join("; "),
            Some(why) => format!("nothing compared yet: {why}"),
            None => "nothing compared yet".to_owned(),
        }
    }

    fn compared(&self) -> impl Iterator<Item = (PromptKind, &KindEvidence)> {
        PromptKind::ALL.into_iter().zip(&self.kinds).filter(|(_, kind)| !kind.is_empty())
    }
}

// === impl Verdict ===

impl Verdict {
    pub(crate) const fn is_proven(self) -> bool {
        matches!(self, Self::Proven { .. })
    }

    pub(crate) const fn is_mismatch(self) -> bool {
        matches!(self, Self::Mismatch(_))
    }
}

// === impl KindEvidence ===

impl KindEvidence {
    fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.lengths.is_empty()
    }

    /// Takes a comparison, unless ids already said more; true if the verdict changed.
    fn add(&mut self, evidence: Evidence) -> bool {
        let is_of_ids = evidence.finding.is_of_ids();
        let do_ids_differ = matches!(self.verdict, Verdict::Mismatch(difference) if difference.is_of_ids());
        if !is_of_ids && (do_ids_differ || contains(&self.ids, evidence.prompt)) {
            return false;
        }
        self.lengths.retain(|seen| seen.prompt != evidence.prompt);
        let seen = if is_of_ids { &mut self.ids } else { &mut self.lengths };
        seen.retain(|seen| seen.prompt != evidence.prompt);
        seen.push_back(evidence);
        if seen.len() > WINDOW {
            seen.pop_front();
        }
        let judged = self.judged(evidence.finding);
        let before = std::mem::replace(&mut self.verdict, judged);
        if before.is_mismatch() && self.verdict.is_proven() {
            self.begin_anew();
        }
        std::mem::discriminant(&before) != std::mem::discriminant(&self.verdict)
    }

    /// The verdict behind the latest finding.
    fn judged(&self, latest: Finding) -> Verdict {
        match self.verdict {
            Verdict::Mismatch(_) if !latest.is_equal() => Verdict::Mismatch(latest),
            Verdict::Mismatch(difference) if !self.is_cleared(difference) => self.verdict,
            Verdict::Mismatch(_) => Verdict::Proven { by_ids: latest.is_of_ids() },
            _ if !latest.is_equal() && self.weight() >= CONDEMNING => {
                Verdict::Mismatch(self.plainest(latest))
            }
            _ => self.proven(),
        }
    }

    /// What differed is over: it does not speak against what comes.
    fn begin_anew(&mut self) {
        for seen in [&mut self.ids, &mut self.lengths] {
            seen.retain(|seen| seen.finding.is_equal());
        }
    }

    fn proven(&self) -> Verdict {
        let is_of_ids = findings(&self.ids).any(Finding::is_equal);
        let is_uniform = self.differing().next().is_none();
        match self.verdict {
            Verdict::Proven { by_ids } => Verdict::Proven { by_ids: by_ids || is_of_ids },
            _ if is_of_ids => Verdict::Proven { by_ids: true },
            _ if is_uniform && self.lengths.len() >= PROVING_LENGTHS => Verdict::Proven { by_ids: false },
            verdict => verdict,
        }
    }

    /// How much speaks against the kind: a prompt weighs less where the kind is proven, by what was compared of it.
    fn weight(&self) -> usize {
        let were_ids_equal = self.verdict == Verdict::Proven { by_ids: true };
        let of_ids = if were_ids_equal { 2 } else { CONDEMNING };
        let of_lengths = if self.verdict.is_proven() { 1 } else { 2 };
        let weigh = |finding: Finding| if finding.is_of_ids() { of_ids } else { of_lengths };
        self.differing().map(weigh).sum()
    }

    /// Whether enough prompts in a row were equal in what differed before.
    fn is_cleared(&self, difference: Finding) -> bool {
        let seen = if difference.is_of_ids() { &self.ids } else { &self.lengths };
        let equal_ids = findings(&self.ids).rev().take_while(|finding| finding.is_equal()).count();
        equal_ids >= CLEARING
            || findings(seen).rev().take_while(|finding| finding.is_equal()).count() >= CLEARING
    }

    /// The difference to tell of: the latest one of ids, if there is any.
    fn plainest(&self, latest: Finding) -> Finding {
        findings(&self.ids).rfind(|finding| !finding.is_equal()).unwrap_or(latest)
    }

    fn differing(&self) -> impl Iterator<Item = Finding> {
        findings(&self.ids).chain(findings(&self.lengths)).filter(|finding| !finding.is_equal())
    }

    fn reason(&self) -> String {
        match self.verdict {
            Verdict::Mismatch(Finding::OtherIds(at)) => format!("other ids from position {}", at.position),
            Verdict::Mismatch(_) => "other lengths".to_owned(),
            Verdict::Proven { by_ids: true } => "equal ids".to_owned(),
            Verdict::Proven { by_ids: false } => "equal lengths".to_owned(),
            Verdict::Unproven if self.differing().next().is_some() => {
                "one prompt differs, too little to tell".to_owned()
            }
            Verdict::Unproven => format!("{} of {PROVING_LENGTHS} equal lengths", self.lengths.len()),
        }
    }
}

fn findings(seen: &VecDeque<Evidence>) -> impl DoubleEndedIterator<Item = Finding> {
    seen.iter().map(|seen| seen.finding)
}

fn contains(seen: &VecDeque<Evidence>, prompt: u64) -> bool {
    seen.iter().any(|seen| seen.prompt == prompt)
}

#[cfg(test)]
mod tests;
