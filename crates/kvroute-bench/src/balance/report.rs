//! The table of one workload, and whether the bounds hold.

use serde_json::{Value, json};

use super::longest_prefix;
use super::record::Figures;
use super::workloads::Workload;
use crate::table::{Table, three_digits};

/// A policy's figures on one workload, a run each.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) policy: &'static str,
    pub(super) runs: Vec<Figures>,
}

/// The busiest worker's work over the mean that nobody may exceed.
const MOST_SPREAD: f64 = 1.5;
/// Of the best other policy's time to first token.
const MOST_TTFT: f64 = 1.1;
/// Of what the longest prefix reuses.
const LEAST_REUSE: f64 = 0.95;

const OWN: &str = "kv";

// === impl Outcome ===

impl Outcome {
    fn median(&self, figure: fn(&Figures) -> f64) -> f64 {
        let sorted = self.sorted(figure);
        sorted[sorted.len() / 2]
    }

    fn most(&self, figure: fn(&Figures) -> f64) -> f64 {
        self.sorted(figure)[self.runs.len() - 1]
    }

    fn sorted(&self, figure: fn(&Figures) -> f64) -> Vec<f64> {
        let mut figures: Vec<f64> = self.runs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures
    }

    fn cell(&self, scale: f64, figure: fn(&Figures) -> f64) -> String {
        let sorted = self.sorted(figure);
        let [low, half, high] =
            [0, sorted.len() / 2, sorted.len() - 1].map(|place| three_digits(scale * sorted[place]));
        if low == high { half } else { format!("{half} ({low}-{high})") }
    }
}

pub(super) fn table(workload: &Workload, outcomes: &[Outcome]) -> String {
    let is_asked_again = outcomes.iter().any(|outcome| outcome.most(|run| run.again) > 0.0);
    let header = ["policy", "spread", "reuse %", "TTFT p50 ms", "TTFT p99 ms", "ms a token", "requests"];
    let mut table = Table::new(1, header.into_iter().chain(is_asked_again.then_some("asked again %")));
    for outcome in outcomes {
        let cells = [
            outcome.policy.to_owned(),
            outcome.cell(1.0, |run| run.spread),
            outcome.cell(100.0, |run| run.reuse),
            outcome.cell(1000.0, |run| run.ttft_half),
            outcome.cell(1000.0, |run| run.ttft_p99),
            outcome.cell(1000.0, |run| run.each_token),
            outcome.runs[0].requests.to_string(),
        ];
        let again = is_asked_again.then(|| outcome.cell(100.0, |run| run.again));
        table.push(cells.into_iter().chain(again).collect());
    }
    format!("{}: {}\n{table}{}", workload.name, workload.about, bounds(outcomes))
}

/// Which bounds hold. Medians, but for the spread, which nobody may exceed in any run.
fn bounds(outcomes: &[Outcome]) -> String {
    let find = |name| outcomes.iter().find(|outcome| outcome.policy == name);
    let Some(own) = find(OWN) else { return String::new() };
    let longest = find(longest_prefix::NAME);
    let spread = own.most(|run| run.spread);
    let mut text =
        format!("spread at most {MOST_SPREAD} in every run: {} ({spread:.2})\n", mark(spread <= MOST_SPREAD));
    let is_policy = |outcome: &&Outcome| ![OWN, longest_prefix::NAME].contains(&outcome.policy);
    let others = outcomes.iter().filter(is_policy);
    if let Some(best) = others.min_by(|a, b| p99(a).total_cmp(&p99(b))) {
        text += &ttft_bound(own, best, longest);
    }
    text + &longest.map(|longest| reuse_bound(own, longest)).unwrap_or_default()
}

const fn mark(holds: bool) -> &'static str {
    if holds { "yes" } else { "NO" }
}

fn p99(outcome: &Outcome) -> f64 {
    outcome.median(|run| run.ttft_p99)
}

/// The longest prefix is no policy that anybody may configure: it is told, not counted.
fn ttft_bound(own: &Outcome, best: &Outcome, longest: Option<&Outcome>) -> String {
    let ratio = p99(own) / p99(best);
    let beside = longest.map(|longest| format!("; {:.2} x {}'s", p99(own) / p99(longest), longest.policy));
    format!(
        "TTFT p99 at most {MOST_TTFT} x the best other policy's: {} ({ratio:.2} x {}'s{})\n",
        mark(ratio <= MOST_TTFT),
        best.policy,
        beside.unwrap_or_default()
    )
}

fn reuse_bound(own: &Outcome, longest: &Outcome) -> String {
    let spread = longest.median(|run| run.spread);
    let [reuse, most] = [own, longest].map(|outcome| outcome.median(|run| run.reuse));
    let ratio = reuse / most;
    let judged = match () {
        () if most == 0.0 => "nothing can be reused".to_owned(),
        () if spread > MOST_SPREAD => format!("no bound, its spread is {spread:.2} ({ratio:.3})"),
        () => format!("{} ({ratio:.3})", mark(ratio >= LEAST_REUSE)),
    };
    format!("reuse at least {LEAST_REUSE} x {}'s: {judged}\n", longest.policy)
}

pub(super) fn as_json(workload: &Workload, outcomes: &[Outcome]) -> Value {
    let of = |outcome: &Outcome| {
        let run = |run: &Figures| {
            json!({
                "spread": run.spread,
                "reuse": run.reuse,
                "ttft_p50_seconds": run.ttft_half,
                "ttft_p99_seconds": run.ttft_p99,
                "seconds_a_token": run.each_token,
                "asked_again": run.again,
                "requests": run.requests,
            })
        };
        json!({ "policy": outcome.policy, "runs": outcome.runs.iter().map(run).collect::<Vec<_>>() })
    };
    json!({ "workload": workload.name, "policies": outcomes.iter().map(of).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(policy: &'static str, spread: f64, reuse: f64, ttft_p99: f64) -> Outcome {
        let run =
            Figures { spread, reuse, ttft_half: 0.1, ttft_p99, each_token: 0.01, again: 0.0, requests: 9 };
        Outcome { policy, runs: vec![run, Figures { spread: spread - 0.1, ..run }, run] }
    }

    #[test]
    fn bounds_are_judged_against_the_best_policy_and_the_longest_prefix() {
        let own = outcome("kv", 1.4, 0.9, 1.0);
        let others = [outcome("random", 1.0, 0.5, 2.0), outcome("sticky", 1.6, 0.9, 0.8)];
        let with = |longest: Outcome| bounds(&[vec![own.clone(), longest], others.to_vec()].concat());
        assert_eq!(
            with(outcome("longest-prefix", 1.5, 0.95, 0.5)),
            "spread at most 1.5 in every run: yes (1.40)\n\
             TTFT p99 at most 1.1 x the best other policy's: NO (1.25 x sticky's; 2.00 x longest-prefix's)\n\
             reuse at least 0.95 x longest-prefix's: NO (0.947)\n"
        );
        let herd = with(outcome("longest-prefix", 4.0, 0.99, 0.5));
        assert!(herd.ends_with("no bound, its spread is 4.00 (0.909)\n"), "{herd}");
        assert!(with(outcome("longest-prefix", 1.0, 0.0, 0.5)).ends_with("nothing can be reused\n"));
        assert_eq!(bounds(&others), "");
    }
}
