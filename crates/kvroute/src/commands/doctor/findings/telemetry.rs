//! What the engine tells of itself, and what it could.

use kvroute_engine::{EngineKind, LoadError, Probe};

use crate::commands::doctor::collected::{Examined, Trial};
use crate::commands::doctor::finding::Finding;

/// Tokens in a block from which on many prompts have none: hybrid models grow theirs to hundreds.
const LARGE_BLOCK: u32 = 256;

pub(super) fn of_probe(examined: &Examined) -> Vec<Finding> {
    let probe = &examined.probe;
    let found = [
        unanswered(probe),
        uncached(probe),
        block_size(probe),
        reports(probe, &examined.trial),
        load(probe.engine, examined.load.as_ref().err()),
        unknown_engine(probe),
        images(probe),
    ];
    found.into_iter().flatten().chain(unusable(probe)).collect()
}

/// What the engine said and nobody can use. That it caches nothing is a finding of its own.
fn unusable(probe: &Probe) -> impl Iterator<Item = Finding> {
    let caching = probe.engine.caching_remedy();
    probe.notes.iter().filter(move |note| !note.contains(caching)).map(|note| {
        Finding::warning(
            "unusable_answer",
            note,
            "correct what the engine announces, or name it in the configuration: kv_events, dp_ranks",
        )
    })
}

fn unanswered(probe: &Probe) -> Option<Finding> {
    let paths = probe.unanswered.join(", ");
    (!paths.is_empty()).then(|| {
        Finding::warning(
            "unanswered",
            format!("gives no proper answer to {paths}: what these would tell is unknown"),
            "see the engine's log for these paths, and ask again",
        )
    })
}

fn uncached(probe: &Probe) -> Option<Finding> {
    (probe.caches_prefixes == Some(false)).then(|| {
        Finding::warning(
            "no_prefix_caching",
            "does not cache prefixes: nothing can ever be reused there",
            probe.engine.caching_remedy(),
        )
    })
}

fn block_size(probe: &Probe) -> Option<Finding> {
    let size = probe.own_block_size()?.get();
    match (probe.engine, size) {
        (EngineKind::Sglang, 1) => Some(Finding::hint(
            "page_size_1",
            "has pages of one token: every token is an event of its own, which costs the engine and the router",
            "start sglang with --page-size 16 to 64",
        )),
        (_, LARGE_BLOCK..) => Some(Finding::hint(
            "large_blocks",
            format!("has blocks of {size} tokens: of prompts shorter than that nothing is ever reused"),
            "expect no hits of short prompts; models with state beside attention have such blocks",
        )),
        _ => None,
    }
}

/// What is known without a trial; a trial knows better.
fn reports(probe: &Probe, trial: &Trial) -> Option<Finding> {
    match (trial, probe.reports_reuse) {
        (Trial::Done(_), _) | (_, Some(true)) => None,
        (_, Some(false)) => Some(Finding::warning(
            "reuse_not_reported",
            "does not report cached tokens: what it reuses (F4) stays unknown",
            probe.engine.report_remedy(),
        )),
        (Trial::NotSent(reason), None) => Some(Finding::hint(
            "reuse_unknown",
            format!("whether it reports cached tokens was not tried: {reason}"),
            format!("if the router counts its reports as missing: {}", probe.engine.report_remedy()),
        )),
        (Trial::Refused(_), None) => None,
    }
}

fn load(engine: EngineKind, error: Option<&LoadError>) -> Option<Finding> {
    let error = error.filter(|_| engine.tells_load())?;
    Some(Finding::hint(
        "load_untold",
        format!("does not tell its load: {error}; a router then knows only what it sent itself"),
        error.remedy(engine),
    ))
}

/// Images come in, and nobody can ask what becomes of them.
fn images(probe: &Probe) -> Option<Finding> {
    let seen = probe.items_seen.filter(|seen| *seen > 0)?;
    (probe.can_render == Some(false) && probe.engine.renders_images()).then(|| {
        Finding::warning(
            "images_uncounted",
            format!(
                "was sent {seen} images or the like, and does not tell what becomes of them: chats with images are routed \
                 by load and counted by nobody"
            ),
            probe.engine.render_remedy(),
        )
    })
}

fn unknown_engine(probe: &Probe) -> Option<Finding> {
    (probe.engine == EngineKind::OpenAi).then(|| {
        Finding::hint(
            "unknown_engine",
            "is none of the engines that are known: only what it reports is read",
            "if it is vllm, sglang, tensorrt-llm or llama.cpp, let /v1/models say so in owned_by",
        )
    })
}
