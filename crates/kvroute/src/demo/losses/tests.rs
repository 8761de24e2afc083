use std::collections::BTreeSet;
use std::time::Duration;

use kvroute_core::{Blocks, ModelName, Phase};
use kvroute_metrics::{HistoryBounds, Metrics, MetricsOptions, PoolLabels};

use super::*;
use crate::demo::funnel::Funnel;
use crate::demo::progress::Percentiles;
use crate::demo::scrape::Scrape;

fn lost(tokens: u64, seconds: Option<f64>, stage: &'static str, reason: &'static str) -> Outcome {
    let lost = vec![
        Loss { stage: "unavailable", reason: "partial_block", tokens: 10, seconds: None },
        Loss { stage, reason, tokens, seconds },
    ];
    Outcome {
        policy: "kv".to_owned(),
        requests: 1,
        errors: 0,
        first_error: None,
        funnel: Funnel { input: Some(4000), lost, ..Funnel::default() },
        engine_reused: None,
        first_token: Percentiles::default(),
        elapsed: Duration::ZERO,
    }
}

/// Every reason that a router can export at present.
fn exported() -> BTreeSet<(&'static str, &'static str)> {
    let metrics = Metrics::new(&MetricsOptions::default()).unwrap();
    let pool = metrics.pool(&PoolLabels {
        model: &ModelName::new("m"),
        policy: "kv",
        reasons: &[],
        shadows: &[],
        phases: &[Phase::Aggregated],
        counts_input: true,
        history: Some(HistoryBounds { capacity: Blocks::new(1), bytes: 1 }),
    });
    pool.index_view_exists();
    let lost = Scrape::new(metrics.render()).funnel().lost;
    lost.iter().map(|loss| (loss.stage, loss.reason)).collect()
}

#[test]
fn every_reason_of_the_ledger_has_words_and_no_other() {
    let words: BTreeSet<_> = WORDS.iter().map(|(stage, reason, _)| (*stage, *reason)).collect();
    assert_eq!(words, exported());
}

#[test]
fn the_worst_reason_is_told_with_its_size_and_its_meaning() {
    assert_eq!(
        worst(&lost(1000, Some(2.5), "placement", "policy")).unwrap(),
        "kv lost most to policy: 1,000 tokens (25.0% of the input, 2.5 s of prefill) were cached on another worker: the \
         policy does not look at caches."
    );
    assert_eq!(
        worst(&lost(9, None, "delivery", "stale_index")).unwrap(),
        "kv lost most to partial block: 10 tokens (0.2% of the input) stood behind the last whole block of their prompt, \
         and no engine caches those."
    );
    let mut nothing = lost(0, None, "placement", "load");
    nothing.funnel.lost[0].tokens = 0;
    assert_eq!(worst(&nothing), None);
}

#[test]
fn text_is_broken_between_words() {
    let words = "word ".repeat(30);
    let text = wrapped(&words);
    assert_eq!(text.split_whitespace().count(), 30);
    assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [79, 69]);
    assert!(text.ends_with("word\n"));
}
