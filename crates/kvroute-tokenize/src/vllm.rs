//! What vLLM does to a chat before its template sees it.
//!
//! Requests pass through typed models there, which drop what they do not know, put members in their own order
//! and rename some; then content, tool calls and roles are brought into the forms that templates expect.
//! Seen on version 0.32; the comparison of prompt lengths tells where another version does otherwise.

mod content;
mod tool_calls;

#[cfg(test)]
mod tests;

use self::content::normalise_content;
use self::tool_calls::normalise_tool_calls;
use crate::template::{ContentFormat, TemplateTraits};
use crate::tree::{Members, Tree};

/// Normalises the messages of a chat.
///
/// # Errors
/// Names what vLLM refuses as well.
pub(crate) fn normalise_messages(messages: Vec<Tree>, traits: TemplateTraits) -> Result<Vec<Tree>, String> {
    let mut chat = Vec::with_capacity(messages.len());
    for message in messages {
        let Tree::Map(members) = message else {
            return Err("a message is no object; send objects".to_owned());
        };
        chat.push(normalise_message(members, traits.content_format)?);
    }
    let has_developer = chat.iter().any(|message| role_of(message) == "developer");
    if has_developer && !traits.knows_developer {
        chat = merge_system_messages(chat.into_iter().map(developer_as_system).collect());
    }
    Ok(chat.into_iter().map(Tree::Map).collect())
}

/// Normalises tools: `type`, then `function` with name, description and parameters (null where absent), then
/// what else is known.
///
/// # Errors
/// Names what vLLM refuses as well.
pub(crate) fn normalise_tools(tools: Vec<Tree>) -> Result<Vec<Tree>, String> {
    tools.into_iter().map(normalise_tool).collect()
}

fn normalise_tool(tool: Tree) -> Result<Tree, String> {
    let wanted = "a tool is no {type, function: {name, …}}; send that form";
    let Tree::Map(mut given) = tool else { return Err(wanted.to_owned()) };
    let Some(Tree::Map(mut given_function)) = given.take("function") else { return Err(wanted.to_owned()) };
    let defer_loading = given.take("defer_loading");
    let mut function = Members::default();
    for name in ["name", "description", "parameters"] {
        function.set(name, given_function.take(name).unwrap_or(Tree::Null));
    }
    function.set_some("strict", given_function.take("strict"));
    function
        .set_some("defer_loading", given_function.take("defer_loading").or_else(|| defer_loading.clone()));
    let mut normalised = Members::default();
    normalised.set("type", Tree::Text("function".to_owned()));
    normalised.set("function", Tree::Map(function));
    normalised.set_some("defer_loading", defer_loading);
    Ok(Tree::Map(normalised))
}

fn normalise_message(mut given: Members, format: ContentFormat) -> Result<Members, String> {
    let role = role_of(&given).to_owned();
    let old_reasoning = given.take("reasoning_content");
    let reasoning = given.take("reasoning").or(old_reasoning);
    let mut message = Members::default();
    message.set("role", Tree::Text(role.clone()));
    message.set("content", normalise_content(given.take("content"), &role, format)?);
    match role.as_str() {
        "assistant" => {
            if let Some(calls) = given.take("tool_calls") {
                message.set_some("tool_calls", normalise_tool_calls(calls)?);
            }
            message.set_some("reasoning", reasoning.clone());
            message.set_some("reasoning_content", reasoning);
        }
        "tool" => message.set_some("tool_call_id", given.take("tool_call_id")),
        _ => {}
    }
    for name in ["name", "task"] {
        message.set_some(name, given.take(name).filter(|value| value.as_text().is_some()));
    }
    if role == "developer" {
        message.set("tools", given.take("tools").unwrap_or(Tree::Null));
    }
    Ok(message)
}

fn role_of(message: &Members) -> &str {
    message.get("role").and_then(Tree::as_text).unwrap_or_default()
}

fn developer_as_system(mut message: Members) -> Members {
    if role_of(&message) == "developer" {
        message.set("role", Tree::Text("system".to_owned()));
        message.take("tools");
    }
    message
}

/// Joins all system messages into one at the start, unless there is just one and it stands there.
fn merge_system_messages(messages: Vec<Members>) -> Vec<Members> {
    let is_system = |message: &Members| role_of(message) == "system";
    if !messages.iter().skip(1).any(is_system) {
        return messages;
    }
    let (system, others): (Vec<Members>, Vec<Members>) = messages.into_iter().partition(is_system);
    let texts: Vec<String> = system
        .iter()
        .filter_map(|message| message.get("content"))
        .map(text_of)
        .filter(|text| !text.is_empty())
        .collect();
    let mut merged = Members::default();
    merged.set("role", Tree::Text("system".to_owned()));
    merged.set("content", Tree::Text(texts.join("\n\n")));
    [merged].into_iter().chain(others).collect()
}

fn text_of(content: &Tree) -> String {
    match content {
        Tree::Text(text) => text.clone(),
        Tree::List(parts) => {
            let texts = parts.iter().filter_map(|part| match part {
                Tree::Map(members) => members.get("text").and_then(Tree::as_text),
                other => other.as_text(),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
