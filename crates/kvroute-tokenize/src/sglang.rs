//! What SGLang does to a chat before its template sees it.
//!
//! Requests pass through typed models there as well, but other ones than vLLM's: tools keep the client's order of
//! members, a call's absent members are null, a user's name is dropped. An assistant's turn at the end either becomes a
//! user's turn, or, where it is to be continued, is no part of the template's input at all and is tokenized on its own.
//! Seen on version 0.5.23; the comparison of prompt lengths tells where another version does otherwise.

mod content;
mod schema_types;
mod switches;
mod tool_calls;
mod tools;

#[cfg(test)]
mod tests;

use kvroute_openai::ChatPrompt;
use minijinja::Value;

use self::content::{joined_tool_answer, normalise_content};
use self::switches::template_arguments;
use self::tool_calls::{normalise_tool_calls, parse_arguments};
use self::tools::{chosen_tools, normalise_tool, unwrapped};
use crate::template::{ChatTemplates, ContentFormat, TemplateInput};
use crate::tokenizer::Rendered;
use crate::tree::{Members, Tree};

/// Who may speak besides a user.
const ROLES: [&str; 7] = ["system", "assistant", "tool", "function", "developer", "latest_reminder", "root"];

/// Renders a chat.
///
/// # Errors
/// What SGLang refuses as well, or what the template said.
pub(crate) fn render(templates: &ChatTemplates, chat: &ChatPrompt) -> Result<Rendered, String> {
    let tools = chosen_tools(chat)?;
    let (name, traits) = templates.choose(tools.is_some())?;
    let mut messages = normalise_messages(Tree::list_of(&chat.messages)?, traits.sglang_content)?;
    let continued = take_final_assistant(&mut messages, chat.continue_final_message);
    let (arguments, documents) = template_arguments(chat)?;
    let input = TemplateInput {
        messages: messages.into_iter().map(|members| Value::from(Tree::Map(members))).collect(),
        tools: list_value(tools.clone()),
        documents,
        add_generation_prompt: true,
        arguments,
    };
    let text = match (templates.render(name, input.clone()), tools) {
        // Some templates want functions without the wrapper, and say so by failing.
        (Err(_), Some(wrapped)) => {
            let bare = wrapped.into_iter().map(unwrapped).collect();
            templates.render(name, TemplateInput { tools: list_value(Some(bare)), ..input })?
        }
        (rendered, _) => rendered?,
    };
    Ok(Rendered { text, continued })
}

fn list_value(list: Option<Vec<Tree>>) -> Value {
    list.map_or_else(|| Value::from(()), |items| items.into_iter().map(Value::from).collect())
}

/// Normalises the messages of a chat.
fn normalise_messages(messages: Vec<Tree>, format: ContentFormat) -> Result<Vec<Members>, String> {
    let mut chat = Vec::with_capacity(messages.len());
    for message in messages {
        let Tree::Map(members) = message else {
            return Err("a message is no object; send objects".to_owned());
        };
        chat.push(normalise_message(members, format)?);
    }
    Ok(chat)
}

fn normalise_message(mut given: Members, format: ContentFormat) -> Result<Members, String> {
    let role = given.get("role").and_then(Tree::as_text).unwrap_or_default();
    if role == "user" {
        let content = given.take("content").ok_or("a user's message has no content; send one")?;
        return with_content("user", content, format, Members::default());
    }
    let role = role.to_lowercase();
    if !ROLES.contains(&role.as_str()) {
        return Err(format!("no role is named \"{role}\"; send user or one of {}", ROLES.join(", ")));
    }
    let content = given.take("content").unwrap_or_else(|| Tree::Text(String::new()));
    let others = other_members(given, role == "assistant")?;
    with_content(&role, content, format, others)
}

/// What a message may have besides role and content, in the order of the typed model.
fn other_members(mut given: Members, is_assistant: bool) -> Result<Members, String> {
    let mut message = Members::default();
    for name in ["tool_call_id", "name", "phase", "reasoning_content"] {
        match given.take(name) {
            Some(Tree::Text(text)) => message.set(name, Tree::Text(text)),
            Some(_) => return Err(format!("{name} of a message is no text; send a text")),
            None => {}
        }
    }
    if let Some(calls) = given.take("tool_calls") {
        let mut calls = normalise_tool_calls(calls)?;
        if is_assistant {
            calls = calls.into_iter().map(parse_arguments).collect::<Result<_, _>>()?;
        }
        message.set("tool_calls", Tree::List(calls));
    }
    if let Some(tools) = given.take("tools") {
        let Tree::List(list) = tools else {
            return Err("tools of a message is no array; send one".to_owned());
        };
        let normalised: Result<Vec<Tree>, String> = list.into_iter().map(normalise_tool).collect();
        message.set("tools", Tree::List(normalised?));
    }
    message.set_some("prefix", given.take("prefix"));
    Ok(message)
}

/// Puts a message together. Parts stand behind the other members, one text in front of them.
fn with_content(
    role: &str,
    content: Tree,
    format: ContentFormat,
    others: Members,
) -> Result<Members, String> {
    let is_list_of_parts = matches!((&content, format), (Tree::List(_), ContentFormat::Parts));
    let normalised = normalise_content(content, role, format)?;
    let mut message = Members::default();
    message.set("role", Tree::Text(role.to_owned()));
    if !is_list_of_parts {
        message.set("content", normalised);
        message.extend(others);
        return Ok(message);
    }
    message.extend(others);
    message.set("content", if role == "tool" { joined_tool_answer(normalised) } else { normalised });
    Ok(message)
}

/// An assistant's text at the end is taken out to be continued, or else becomes a user's.
fn take_final_assistant(messages: &mut Vec<Members>, is_continued: bool) -> Option<String> {
    let last = messages.last_mut()?;
    let is_assistant = last.get("role").and_then(Tree::as_text) == Some("assistant");
    let text = last.get("content").and_then(Tree::as_text).filter(|_| is_assistant)?.to_owned();
    if is_continued {
        messages.pop();
        return Some(text);
    }
    let mut of_user = Members::default();
    of_user.set("role", Tree::Text("user".to_owned()));
    of_user.set("content", Tree::Text(text));
    *last = of_user;
    None
}
