//! Whether prompts become the same ids on both sides.

use kvroute_core::TokenId;

use crate::commands::doctor::collected::{Examined, Parity};
use crate::commands::doctor::finding::Finding;
use crate::commands::doctor::parity::{Cause, Difference, Fault, ParityCheck};

pub(super) fn of_parity(examined: &Examined) -> Vec<Finding> {
    match &examined.parity {
        Parity::Off => Vec::new(),
        Parity::NoTokenizer => without_tokenizer(examined),
        Parity::Compared(check) => of_check(check),
    }
}

fn without_tokenizer(examined: &Examined) -> Vec<Finding> {
    if examined.probe.can_tokenize {
        return vec![Finding::hint(
            "tokenizer_remote",
            "no tokenizer is given: every prompt is sent to the worker's tokenize endpoint first",
            "set pool.tokenizer to the model's folder, and prove it here with --tokenizer",
        )];
    }
    vec![Finding::warning(
        "no_tokenizer",
        "no tokenizer is given, and the worker has no tokenize endpoint: prompts cannot be counted, so nothing is \
         found in any cache",
        "set pool.tokenizer to the model's folder",
    )]
}

fn of_check(check: &ParityCheck) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(problem) = &check.template_problem {
        found.push(Finding::warning(
            "no_chat_template",
            format!("chats cannot be counted: {problem}"),
            TEMPLATE,
        ));
    } else if let Some((name, problem)) = check.not_here().next() {
        found.push(Finding::error(
            "unrenderable",
            format!("\"{name}\" cannot be encoded here, and the engine takes it: {problem}"),
            TEMPLATE,
        ));
    }
    if check.is_unsupported() {
        found.push(Finding::hint(
            "parity_unsupported",
            "tokenizes nothing for others: only the lengths of prompts can be compared",
            "see that the tokenizer is that of the model; the router compares every report with its own count",
        ));
    } else if let Some((name, problem)) = check.not_there().next() {
        found.push(Finding::warning(
            "parity_unanswered",
            format!("\"{name}\" was not tokenized by the engine: {problem}"),
            "see the engine's log; what could not be compared may differ",
        ));
    }
    found.extend(check.faults().iter().map(of_fault));
    found
}

const TEMPLATE: &str =
    "put the model's chat_template.jinja or tokenizer_config.json beside its tokenizer.json";

fn of_fault(fault: &Fault) -> Finding {
    let at = described(&fault.difference);
    let names = fault.names.join(", ");
    match fault.cause {
        Cause::OtherTokenizer => Finding::error(
            "other_tokenizer",
            format!("plain words become other ids: this is not the engine's tokenizer; {at}"),
            "set pool.tokenizer to the folder of the very model that the engine serves",
        ),
        Cause::MissingBegin => Finding::error(
            "missing_bos",
            format!("the engine begins with a token that is not added here ({names}): {at}"),
            "use the model's own tokenizer.json with its post_processor, and its own chat template",
        ),
        Cause::ExtraBegin => Finding::error(
            "extra_bos",
            format!("a token is added here at the beginning that the engine does not have ({names}): {at}"),
            "use the model's own tokenizer.json; a chat template that writes the token needs a tokenizer that does not",
        ),
        Cause::OtherTemplate => Finding::error(
            "wrong_template",
            format!(
                "text becomes the same ids and chats do not: the chat template is another one ({names}); {at}"
            ),
            "give the pool the chat template that the engine was started with",
        ),
        Cause::Preparation => Finding::error(
            "prepared_otherwise",
            format!("simple prompts are equal, and these are not: {names}; {at}"),
            "compare the engine's release with docs/engines.md, or set pool.tokenizer to \"engine\"",
        ),
    }
}

fn described(difference: &Difference) -> String {
    let shown = |side: &Option<(TokenId, String)>| match side {
        Some((id, text)) if text.is_empty() => format!("{id} (unknown here)"),
        Some((id, text)) => format!("{id} {text:?}"),
        None => "the end".to_owned(),
    };
    let (ours, theirs) = (shown(&difference.ours), shown(&difference.theirs));
    format!("at position {} there is {ours} here and {theirs} at the engine", difference.position)
}
