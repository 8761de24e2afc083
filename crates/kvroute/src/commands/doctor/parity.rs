//! Whether prompts become the same ids here and at the engine.
//!
//! Reuse is counted by tokens: one id that differs moves every block behind it, and a prompt that is counted otherwise is
//! predicted nowhere. A set of prompts, each with something that is known to go wrong, is encoded here as a router would and
//! by the worker's tokenize endpoint.

mod cases;
mod diagnosis;

use std::sync::Arc;

use bytes::Bytes;
use kvroute_core::{ModelName, TokenId};
use kvroute_engine::{ChatStyle, EngineKind, HttpClient, Probe, RemoteTokenizeError, RemoteTokenizer};
use kvroute_openai::{Endpoint, Prompt};
use kvroute_router::chat_rules;
use kvroute_tokenize::{ChatRules, PromptTokenizer};

use super::subjects::{Counting, Subject};
use super::trial::prompt_of;

pub(super) use cases::{CaseKind, all as all_cases};
pub(super) use diagnosis::{Cause, Difference, Fault};

/// Everything that was compared.
#[derive(Debug)]
pub(super) struct ParityCheck {
    pub(super) cases: Vec<ParityCase>,
    /// Why chats cannot be rendered here at all.
    pub(super) template_problem: Option<String>,
}

/// One prompt.
#[derive(Debug)]
pub(super) struct ParityCase {
    pub(super) name: &'static str,
    pub(super) kind: CaseKind,
    pub(super) outcome: Outcome,
}

/// What became of it on both sides.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The same ids.
    Equal,
    /// Other ids.
    Differs(Difference),
    /// There are no ids here: why.
    NotHere(String),
    /// The engine refused it or broke: why.
    NotThere(String),
    /// Neither side takes it.
    Nowhere,
    /// The engine tokenizes nothing of this kind for others.
    Unsupported,
}

/// Counts prompts as a router in front of this engine would.
#[derive(Debug)]
pub(super) struct Counter {
    tokenizer: Option<Arc<PromptTokenizer>>,
    rules: ChatRules,
    leaves_chats: bool,
}

// === impl ParityCheck ===

impl ParityCheck {
    /// Compares all prompts, one after the other.
    pub(super) async fn run(
        client: &HttpClient,
        url: &str,
        probe: &Probe,
        model: &str,
        tokenizer: &Arc<PromptTokenizer>,
    ) -> Self {
        let remote = RemoteTokenizer::new(client, url, probe.engine);
        let model = ModelName::new(model);
        let rules = chat_rules(Some(probe.engine.chat_style()));
        let mut cases = Vec::new();
        for (name, kind, prompt) in all_cases() {
            let outcome = match is_supported(probe.engine, kind) {
                false => Outcome::Unsupported,
                true => {
                    let theirs = remote.encode(&model, &prompt).await;
                    compare(tokenizer, &encode(tokenizer, &prompt, rules), theirs)
                }
            };
            cases.push(ParityCase { name, kind, outcome });
        }
        Self { cases, template_problem: tokenizer.template_problem().map(str::to_owned) }
    }

    /// How many were compared, and how many of them are equal.
    pub(super) fn counts(&self) -> (usize, usize) {
        let equal = |case: &&ParityCase| matches!(case.outcome, Outcome::Equal);
        let compared = |case: &&ParityCase| matches!(case.outcome, Outcome::Equal | Outcome::Differs(_));
        (self.cases.iter().filter(compared).count(), self.cases.iter().filter(equal).count())
    }
}

fn is_supported(engine: EngineKind, kind: CaseKind) -> bool {
    match kind {
        CaseKind::PlainText | CaseKind::Text => engine.tokenizes_text(),
        CaseKind::PlainChat | CaseKind::Chat => engine.tokenizes_chats() && !is_left_to(engine),
    }
}

/// Whether a router asks the engine for the ids of chats whatever tokenizer it has: then there is nothing to compare.
fn is_left_to(engine: EngineKind) -> bool {
    engine.chat_style() == ChatStyle::LlamaCpp
}

fn encode(tokenizer: &PromptTokenizer, prompt: &Prompt, rules: ChatRules) -> Result<Vec<TokenId>, String> {
    let lists = tokenizer.encode(prompt, rules).map_err(|error| error.to_string())?;
    Ok(lists.into_iter().flatten().collect())
}

fn compare(
    tokenizer: &PromptTokenizer,
    ours: &Result<Vec<TokenId>, String>,
    theirs: Result<Vec<Vec<TokenId>>, RemoteTokenizeError>,
) -> Outcome {
    let theirs: Result<Vec<TokenId>, _> = theirs.map(|lists| lists.into_iter().flatten().collect());
    match (ours, theirs) {
        (_, Err(RemoteTokenizeError::Unsupported { .. })) => Outcome::Unsupported,
        (Err(_), Err(RemoteTokenizeError::Refused { .. })) => Outcome::Nowhere,
        (_, Err(error)) => Outcome::NotThere(error.to_string()),
        (Err(problem), Ok(_)) => Outcome::NotHere(problem.clone()),
        (Ok(ours), Ok(theirs)) => {
            let text = |ids: &[TokenId]| tokenizer.decode(ids);
            match Difference::between(ours, &theirs, text, |id| tokenizer.is_special(id)) {
                None => Outcome::Equal,
                Some(difference) => Outcome::Differs(difference),
            }
        }
    }
}

// === impl Counter ===

impl Counter {
    pub(super) fn of(subject: &Subject, engine: EngineKind) -> Self {
        let tokenizer = match &subject.tokenizer {
            Counting::Here(tokenizer) => Some(Arc::clone(tokenizer)),
            Counting::Engine | Counting::Off => None,
        };
        Self { tokenizer, rules: chat_rules(Some(engine.chat_style())), leaves_chats: is_left_to(engine) }
    }

    /// Tokens of a request's prompt, where they can be counted here.
    pub(super) fn count(&self, endpoint: Endpoint, body: &Bytes) -> Option<u64> {
        let prompt = prompt_of(endpoint, body)?;
        if self.leaves_chats && matches!(prompt, Prompt::Chat(_)) {
            return None;
        }
        let ids = encode(self.tokenizer.as_deref()?, &prompt, self.rules).ok()?;
        Some(ids.len() as u64)
    }
}
