//! What a reason of the loss ledger means, for those who see it for the first time.

use super::funnel::Loss;
use super::outcome::Outcome;
use crate::numbers::thousands;

/// Width that text is broken at.
const TEXT_WIDTH: usize = 80;

/// What became of the tokens: stage, reason, and the end of the sentence that begins with their number.
const WORDS: &[(&str, &str, &str)] = &[
    ("new", "partial_block", "stood behind the last whole block of their prompt, and no engine caches those"),
    ("new", "unseen", "were new: nobody had computed them before"),
    ("residency", "worker_gone", "had been computed before, on a worker that has left"),
    ("residency", "cleared", "had been computed before, and were lost when the cache was emptied"),
    (
        "residency",
        "index_budget",
        "had been computed before, and were forgotten because the router's index was full",
    ),
    (
        "residency",
        "forgotten",
        "had been computed before, and were forgotten by the router, which only remembers what it placed there",
    ),
    ("residency", "evicted", "had been computed before, and were evicted by the engines"),
    (
        "residency",
        "source_blind",
        "had been computed before, and may be cached somewhere, but not every worker tells what it has",
    ),
    ("residency", "unknown", "had been computed before, and had left every cache long ago"),
    (
        "unavailable",
        "partial_block",
        "stood behind the last whole block of their prompt, and no engine caches those",
    ),
    ("unavailable", "worker_gone", "were cached on a worker that has left"),
    ("unavailable", "cleared", "were cached until the cache was emptied"),
    ("unavailable", "index_budget", "were forgotten because the router's index was full"),
    ("unavailable", "forgotten", "were forgotten by the router, which only remembers what it placed there"),
    ("unavailable", "evicted", "had been computed before, and were evicted by the engines"),
    ("unavailable", "source_blind", "may be cached somewhere, but not every worker tells what it has"),
    ("unavailable", "not_cached", "were cached nowhere: they were new, or had left long ago"),
    ("eligibility", "pinned", "were cached on a worker that the caller did not name"),
    ("eligibility", "affinity", "were cached on a worker that the session does not belong to"),
    ("eligibility", "unhealthy", "were cached on a worker that did not answer"),
    ("eligibility", "draining", "were cached on a worker that takes no new requests"),
    ("eligibility", "adapter", "were cached on a worker that does not serve the adapter"),
    ("eligibility", "filtered", "were cached on a worker of another kind of engine"),
    ("eligibility", "already_tried", "were cached on a worker where the request had failed before"),
    ("placement", "policy", "were cached on another worker: the policy does not look at caches"),
    ("placement", "sampling", "were cached on another worker, and the temperature chose this one"),
    ("placement", "tie", "were cached on another worker of equal cost, and the draw went against it"),
    ("placement", "load", "were cached on another worker, which had more work waiting or running"),
    ("placement", "request_count", "were cached on another worker, which had more requests in flight"),
    ("placement", "recent", "were cached on another worker, which was given more work lately"),
    ("placement", "tier_weight", "were cached on another worker, in slower memory"),
    ("placement", "expected", "were cached on another worker, while this one was about to compute them too"),
    ("placement", "trust", "were cached on another worker, whose KV events could not be trusted"),
    (
        "delivery",
        "last_block",
        "ended a prompt that was cached whole, and every engine computes its last block",
    ),
    ("delivery", "stale_index", "were evicted between the decision and their turn"),
    ("delivery", "unexplained", "were promised, and computed again for no known reason"),
];

/// One sentence about the reason that cost a run most; `None` if it lost nothing.
pub(crate) fn worst(outcome: &Outcome) -> Option<String> {
    let loss = outcome.funnel.worst()?;
    let share = outcome
        .funnel
        .share_of_input(Some(loss.tokens))
        .map(|share| format!("{} of the input", percent(share)));
    let seconds =
        loss.seconds.filter(|seconds| *seconds >= 0.05).map(|seconds| format!("{seconds:.1} s of prefill"));
    let details: Vec<_> = share.into_iter().chain(seconds).collect();
    Some(format!(
        "{} lost most to {}: {} tokens ({}) {}.",
        outcome.policy,
        loss.reason.replace('_', " "),
        thousands(loss.tokens),
        details.join(", "),
        meaning(loss)
    ))
}

/// A part of a whole for people.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// A text in lines that fit a terminal, with a line end behind each.
pub(crate) fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > TEXT_WIDTH {
            lines.push('\n');
            width = 0;
        }
        if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += length;
    }
    lines + "\n"
}

fn meaning(loss: &Loss) -> &'static str {
    let known = WORDS.iter().find(|(stage, reason, _)| (*stage, *reason) == (loss.stage, loss.reason));
    known.map_or("were not reused", |(.., meaning)| meaning)
}

#[cfg(test)]
mod tests;
