//! What two equal prompts proved.

use crate::commands::doctor::collected::{Examined, Trial, TrialResult};
use crate::commands::doctor::finding::Finding;

pub(super) fn of_trial(examined: &Examined) -> Vec<Finding> {
    match &examined.trial {
        Trial::NotSent(_) => Vec::new(),
        Trial::Refused(problem) => vec![Finding::error(
            "request_refused",
            format!("does not answer a completion of one token: {problem}"),
            "send the same request by hand and see the engine's log",
        )],
        Trial::Done(result) => of_result(examined, result),
    }
}

fn of_result(examined: &Examined, result: &TrialResult) -> Vec<Finding> {
    [unreported(examined, result), unreused(examined, result), miscounted(result)]
        .into_iter()
        .flatten()
        .collect()
}

fn unreported(examined: &Examined, result: &TrialResult) -> Option<Finding> {
    let engine = examined.probe.engine;
    result.reused().is_none().then(|| {
        Finding::warning(
            "reuse_not_reported",
            "does not report cached tokens: what it reuses (F4) stays unknown",
            engine.report_remedy(),
        )
    })
}

/// Three unlike causes look alike: nothing was to be reused, nothing is cached, or it is told wrongly.
fn unreused(examined: &Examined, result: &TrialResult) -> Option<Finding> {
    let (reused, prompt) = (result.reused()?, result.prompt_tokens?);
    let size = examined.probe.own_block_size().map_or(1, |size| u64::from(size.get()));
    if reused > 0 || examined.probe.caches_prefixes == Some(false) {
        return None;
    }
    // The last token is always computed, so a prompt of just one block has none to be reused.
    if prompt <= size {
        return Some(Finding::hint(
            "prompt_under_block",
            format!(
                "a prompt of {prompt} tokens is not longer than one block of {size}: nothing of it can be reused"
            ),
            "nothing: expect hits only of longer prompts",
        ));
    }
    Some(Finding::warning(
        "not_reused",
        format!("the same prompt of {prompt} tokens came twice, and 0 tokens were reused"),
        examined.probe.engine.caching_remedy(),
    ))
}

fn miscounted(result: &TrialResult) -> Option<Finding> {
    let (ours, theirs) = (result.counted_tokens?, result.prompt_tokens?);
    (ours != theirs).then(|| {
        Finding::error(
            "count_differs",
            format!("counts {theirs} tokens in a prompt that has {ours} here: its reports will not be believed"),
            "give the pool the tokenizer and chat template of this very model, or set pool.tokenizer to \"engine\"",
        )
    })
}
