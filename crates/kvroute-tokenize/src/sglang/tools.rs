//! Tools: the client's order of members, and null for what is absent.

use kvroute_openai::ChatPrompt;

use super::schema_types::with_standard_types;
use crate::tree::{Members, Tree};

/// Members of a function that are known, in the order in which absent ones are added.
const FUNCTION_MEMBERS: [&str; 5] = ["description", "name", "parameters", "strict", "defer_loading"];

/// The tools that the template sees: all, the one that must be called, or none.
///
/// # Errors
/// Names what SGLang refuses as well.
pub(super) fn chosen_tools(chat: &ChatPrompt) -> Result<Option<Vec<Tree>>, String> {
    let Some(raw) = &chat.tools else { return Ok(None) };
    let normalised: Result<Vec<Tree>, String> = Tree::list_of(raw)?.into_iter().map(normalise_tool).collect();
    let mut tools = normalised?;
    match chat.tool_choice.as_ref().map(Tree::read_part).transpose()? {
        Some(Tree::Text(choice)) if choice == "none" => return Ok(None),
        Some(Tree::Map(choice)) => {
            let wanted = match choice.get("function") {
                Some(Tree::Map(function)) => function.get("name").cloned(),
                _ => None,
            };
            tools.retain(|tool| function_name(tool) == wanted.as_ref());
        }
        _ => {}
    }
    Ok((!tools.is_empty()).then_some(tools))
}

/// One tool as the typed model prints it.
///
/// # Errors
/// Names the form that is expected.
pub(super) fn normalise_tool(tool: Tree) -> Result<Tree, String> {
    let wanted = "a tool is no {type, function: {name, …}}; send that form";
    let Tree::Map(mut given) = tool else { return Err(wanted.to_owned()) };
    let Some(Tree::Map(function)) = given.take("function") else { return Err(wanted.to_owned()) };
    if function.get("name").and_then(Tree::as_text).is_none() {
        return Err(wanted.to_owned());
    }
    let defer_loading = given.take("defer_loading");
    let mut normalised = Members::default();
    normalised.set("type", given.take("type").unwrap_or_else(|| Tree::Text("function".to_owned())));
    normalised.set("function", Tree::Map(normalise_function(function, defer_loading.as_ref())));
    normalised.set("defer_loading", defer_loading.unwrap_or(Tree::Null));
    Ok(Tree::Map(normalised))
}

/// A tool without its wrapper.
pub(super) fn unwrapped(tool: Tree) -> Tree {
    match tool {
        Tree::Map(mut members) => members.take("function").unwrap_or(Tree::Null),
        other => other,
    }
}

fn normalise_function(given: Members, defer_loading: Option<&Tree>) -> Members {
    let mut known = Members::default();
    for (name, value) in given {
        if FUNCTION_MEMBERS.contains(&name.as_str()) {
            known.set(&name, value);
        }
    }
    for name in FUNCTION_MEMBERS {
        if !known.contains(name) {
            known.set(name, Tree::Null);
        }
    }
    if known.get("defer_loading").is_none() {
        known.set_some("defer_loading", defer_loading.cloned());
    }
    for name in ["strict", "defer_loading"] {
        if known.get(name).is_none() {
            known.take(name);
        }
    }
    if let Some(parameters) = known.get("parameters").cloned() {
        known.set("parameters", with_standard_types(parameters));
    }
    known
}

fn function_name(tool: &Tree) -> Option<&Tree> {
    match tool {
        Tree::Map(members) => match members.get("function") {
            Some(Tree::Map(function)) => function.get("name"),
            _ => None,
        },
        _ => None,
    }
}
