//! The books of one model in one phase.

use super::equation::Findings;
use crate::Exposition;

/// What is counted of one model in one phase.
#[derive(Debug)]
pub(super) struct Account<'a> {
    scrape: &'a Exposition,
    phase: &'a str,
    model: &'a str,
}

const INPUT: &str = "dynamo_component_router_input_sequence_tokens";
const BEST: &str = "dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total";
const SELECTED: &str = "dynamo_component_router_kv_selected_cached_prefix_tokens_total";
const REUSED: &str = "dynamo_component_router_kv_worker_reused_tokens_total";
const ANYWHERE: &str = "kvroute_router_best_cached_prefix_tokens_total";
const LEDGER_INPUT: &str = "kvroute_router_ledger_input_tokens_total";
const HISTORY: &str = "kvroute_router_history_cached_tokens_total";
const REPEATED: &str = "kvroute_router_repeated_input_tokens_total";
const LOST: &str = "kvroute_router_reuse_lost_tokens_total";
const SURPLUS: &str = "kvroute_router_reuse_surplus_tokens_total";
const PREDICTED: &str = "kvroute_router_reuse_compared_predicted_tokens_total";
const REPORTED: &str = "kvroute_router_reuse_compared_reported_tokens_total";
const REPORTED_INPUT: &str = "kvroute_router_reuse_reported_input_tokens_total";
const EXPECTED_INPUT: &str = "kvroute_router_reuse_expected_input_tokens_total";
const UNCACHED: &str = "kvroute_uncached_prefill_tokens_total";
const OUTCOMES: &str = "kvroute_router_reuse_reports_total";
const UNCOUNTED: &str = "kvroute_uncounted_attempts_total";
const ATTEMPTS: &str = "kvroute_attempts_total";

/// They exist together: with the first rank of the pool that has an index source, for a pool that asks an index.
const OF_THE_VIEW: [&str; 2] = [BEST, SELECTED];
/// They exist with those in the phases that the loss ledger covers, and never in others.
const OF_THE_LEDGER: [&str; 6] = [ANYWHERE, LEDGER_INPUT, LOST, SURPLUS, PREDICTED, REPORTED];
/// They exist from the pool's start, so before the first attempt.
const ALWAYS: [&str; 7] = [REUSED, OUTCOMES, REPORTED_INPUT, EXPECTED_INPUT, UNCACHED, REPEATED, UNCOUNTED];
/// A decode leg reads its prompt from where another worker has just computed it.
const UNCOVERED_PHASE: &str = "decode";

// === impl Account ===

impl<'a> Account<'a> {
    pub(super) const fn new(scrape: &'a Exposition, phase: &'a str, model: &'a str) -> Self {
        Self { scrape, phase, model }
    }

    pub(super) fn check(&self, findings: &mut Findings) {
        findings.about(format!("{} {}", self.phase, self.model));
        self.check_existence(findings);
        self.check_stages(findings);
        self.check_history(findings);
        self.check_delivery(findings);
        self.check_reports(findings);
        self.check_attempts(findings);
    }

    fn check_existence(&self, findings: &mut Findings) {
        for name in ALWAYS {
            findings.holds(self.exists(name), || format!("{name} is absent"));
        }
        let (has_view, is_covered) = (self.exists(BEST), self.phase != UNCOVERED_PHASE);
        for name in OF_THE_VIEW {
            findings
                .holds(self.exists(name) == has_view, || format!("{name} without {BEST}, or the reverse"));
        }
        for name in OF_THE_LEDGER {
            let is_due = has_view && is_covered;
            findings.holds(self.exists(name) == is_due, || {
                format!("{name} exists: {}, due with an index view in a covered phase: {is_due}", !is_due)
            });
        }
    }

    /// `L + surplus.residency = new + residency + unavailable + A`, `A = F2 + eligibility`, `F2 = F3 + placement`.
    fn check_stages(&self, findings: &mut Findings) {
        let (input, ledger, anywhere) =
            (("F0", self.input()), ("L", self.sum(LEDGER_INPUT)), ("A", self.sum(ANYWHERE)));
        let (best, selected) = (("F2", self.sum(BEST)), ("F3", self.sum(SELECTED)));
        findings.at_most(&[ledger], &[input]);
        findings.at_most(&[("repeated input", self.sum(REPEATED))], &[input]);
        findings.at_most(&[selected], &[best]);
        findings.at_most(&[best], &[input]);
        if self.phase == UNCOVERED_PHASE {
            return;
        }
        let residency = ("surplus.residency", self.of_stage(SURPLUS, "residency"));
        let before = ["new", "residency", "unavailable"].map(|stage| (stage, self.of_stage(LOST, stage)));
        findings.equal(&[ledger, residency], &[before[0], before[1], before[2], anywhere]);
        findings.equal(&[anywhere], &[best, ("eligibility", self.of_stage(LOST, "eligibility"))]);
        findings.equal(&[best], &[selected, ("placement", self.of_stage(LOST, "placement"))]);
        findings.at_most(&[anywhere], &[ledger]);
    }

    /// Of attempts that a history was asked about F1 and what was new are all of the input, the others have no F1:
    /// `L = new + F1` where there are no others. What is lost again was known: `F1 + surplus.residency = residency + A`
    /// follows from that and the stages.
    fn check_history(&self, findings: &mut Findings) {
        let has_history = self.exists(HISTORY);
        for (name, stage) in [(LOST, "new"), (LOST, "residency"), (SURPLUS, "residency")] {
            let exists = self.scrape.sum(name, &self.labels_with(("stage", stage))).is_some();
            findings.holds(exists == has_history, || {
                format!("{name} of {stage} without {HISTORY}, or the reverse")
            });
        }
        if !has_history {
            return;
        }
        findings.holds(self.exists(LEDGER_INPUT), || format!("{HISTORY} without {LEDGER_INPUT}"));
        let (ledger, known) = (("L", self.sum(LEDGER_INPUT)), ("F1", self.sum(HISTORY)));
        let [new, residency, unavailable] =
            ["new", "residency", "unavailable"].map(|stage| (stage, self.of_stage(LOST, stage)));
        match unavailable.1 {
            0 => findings.equal(&[ledger], &[new, known]),
            _ => findings.at_most(&[new, known, unavailable], &[ledger]),
        }
        let surplus = ("surplus.residency", self.of_stage(SURPLUS, "residency"));
        findings.at_most(&[residency], &[known, surplus]);
    }

    /// `compared_predicted + surplus.delivery = compared_reported + delivery`.
    fn check_delivery(&self, findings: &mut Findings) {
        let predicted = ("compared_predicted", self.sum(PREDICTED));
        let reported = ("compared_reported", self.sum(REPORTED));
        let surplus = ("surplus.delivery", self.of_stage(SURPLUS, "delivery"));
        let lost = ("delivery", self.of_stage(LOST, "delivery"));
        findings.equal(&[predicted, surplus], &[reported, lost]);
        findings.at_most(&[predicted], &[("F3", self.sum(SELECTED))]);
        findings.at_most(&[reported], &[("F4", self.sum(REUSED))]);
        findings.at_most(&[surplus], &[reported]);
    }

    /// Where every counted report could be checked and was possible, what was not reused was computed.
    fn check_reports(&self, findings: &mut Findings) {
        let reported_input = ("reported_input", self.sum(REPORTED_INPUT));
        let (uncached, reused) = (("uncached", self.sum(UNCACHED)), ("F4", self.sum(REUSED)));
        findings.at_most(&[reported_input], &[("expected_input", self.sum(EXPECTED_INPUT))]);
        findings.at_most(&[uncached], &[reported_input]);
        if self.reports("unchecked") + self.reports("impossible") == 0 {
            findings.equal(&[reported_input], &[uncached, reused]);
        }
        if self.sum(UNCOUNTED) == 0 {
            findings.at_most(&[("expected_input", self.sum(EXPECTED_INPUT))], &[("F0", self.input())]);
        }
        if self.reports("reported") == 0 {
            findings.equal(&[uncached], &[("nothing", 0)]);
        }
    }

    /// Each attempt is counted or not, and each that takes reports has one outcome.
    fn check_attempts(&self, findings: &mut Findings) {
        let attempts = ("attempts", self.sum(ATTEMPTS));
        let labels = [("phase", self.phase), ("model", self.model), ("reason", "endpoint")];
        let mute = ("uncounted.endpoint", self.scrape.sum(UNCOUNTED, &labels).map_or(0, whole));
        findings.equal(&[attempts], &[("reports", self.sum(OUTCOMES)), mute]);
        let counted = ("counted", self.histogram("count"));
        findings.equal(&[attempts], &[counted, ("uncounted", self.sum(UNCOUNTED))]);
    }

    fn input(&self) -> u64 {
        self.histogram("sum")
    }

    fn histogram(&self, part: &str) -> u64 {
        self.sum(&format!("{INPUT}_{part}"))
    }

    fn reports(&self, outcome: &str) -> u64 {
        self.with(OUTCOMES, ("outcome", outcome))
    }

    fn of_stage(&self, name: &str, stage: &str) -> u64 {
        self.with(name, ("stage", stage))
    }

    fn exists(&self, name: &str) -> bool {
        self.scrape.sum(name, &[("phase", self.phase), ("model", self.model)]).is_some()
    }

    fn sum(&self, name: &str) -> u64 {
        self.scrape.sum(name, &[("phase", self.phase), ("model", self.model)]).map_or(0, whole)
    }

    fn with(&self, name: &str, label: (&str, &str)) -> u64 {
        self.scrape.sum(name, &self.labels_with(label)).map_or(0, whole)
    }

    fn labels_with<'b>(&'b self, label: (&'b str, &'b str)) -> [(&'b str, &'b str); 3] {
        [("phase", self.phase), ("model", self.model), label]
    }
}

/// A count as a count; the exposition writes all numbers as floating point.
pub(super) fn whole(value: f64) -> u64 {
    assert!(value >= 0.0 && value.fract() == 0.0, "{value} is no count");
    value as u64
}
