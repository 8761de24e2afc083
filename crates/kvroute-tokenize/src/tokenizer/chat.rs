//! From a chat request to the text that the engine will tokenize.

use kvroute_openai::{ChatPrompt, RawJson};
use minijinja::Value;

use crate::ChatRules;
use crate::template::{ChatTemplates, TemplateInput, TemplateTraits, cut_behind};
use crate::tree::{Members, Tree, TreeError};
use crate::vllm;

/// Names that a client's template arguments must not take: they have another meaning to the engine.
const RESERVED: [&str; 5] = ["messages", "tools", "conversation", "chat_template", "tokenize"];

/// Renders a chat.
///
/// # Errors
/// What is wrong with the request, or what the template said.
pub(super) fn render(
    templates: &ChatTemplates,
    chat: &ChatPrompt,
    rules: ChatRules,
) -> Result<String, String> {
    if chat.chat_template.is_some() {
        return Err(
            "the request brings its own chat_template, which engines run only when told to trust it; \
                    leave it out to be routed by prefix"
                .to_owned(),
        );
    }
    if chat.continue_final_message && chat.add_generation_prompt {
        return Err(
            "continue_final_message and add_generation_prompt exclude each other; set one of them to \
                    false"
                .to_owned(),
        );
    }
    let (name, traits) = templates.choose(chat.tools.is_some())?;
    let messages = normalised_messages(chat, rules, traits)?;
    let final_text = if chat.continue_final_message { Some(final_text(&messages)?) } else { None };
    let input = TemplateInput {
        messages: messages.into_iter().map(Value::from).collect(),
        tools: optional_list(chat.tools.as_ref(), |tools| match rules {
            ChatRules::Plain => Ok(tools),
            ChatRules::Vllm => vllm::normalise_tools(tools),
        })?,
        documents: optional_list(chat.documents.as_ref(), Ok)?,
        add_generation_prompt: chat.add_generation_prompt,
        arguments: template_arguments(chat)?,
    };
    let rendered = templates.render(name, input)?;
    match final_text {
        Some(text) => cut_behind(&rendered, &text),
        None => Ok(rendered),
    }
}

fn normalised_messages(
    chat: &ChatPrompt,
    rules: ChatRules,
    traits: TemplateTraits,
) -> Result<Vec<Tree>, String> {
    let messages = list_of(&chat.messages)?;
    match rules {
        ChatRules::Plain => Ok(messages),
        ChatRules::Vllm => vllm::normalise_messages(messages, traits),
    }
}

/// `chat_template_kwargs`, over which the request's own fields win.
fn template_arguments(chat: &ChatPrompt) -> Result<Vec<(String, Value)>, String> {
    let mut arguments = match &chat.chat_template_kwargs {
        Some(raw) => match Tree::of(raw).map_err(|error| unreadable(&error))? {
            Tree::Map(members) => members,
            _ => Members::default(),
        },
        None => Members::default(),
    };
    if let Some(taken) = RESERVED.iter().find(|name| arguments.get(name).is_some()) {
        return Err(format!("chat_template_kwargs must not hold {taken}; send it as a field of the request"));
    }
    if let Some(effort) = &chat.reasoning_effort {
        if arguments.get("enable_thinking").is_none() {
            arguments.set("enable_thinking", Tree::Bool(effort != "none"));
        }
        arguments.set("reasoning_effort", Tree::Text(effort.clone()));
    }
    Ok(arguments.into_iter().map(|(name, value)| (name, Value::from(value))).collect())
}

fn optional_list(
    raw: Option<&RawJson>,
    normalise: impl FnOnce(Vec<Tree>) -> Result<Vec<Tree>, String>,
) -> Result<Value, String> {
    match raw {
        Some(json) => Ok(normalise(list_of(json)?)?.into_iter().map(Value::from).collect()),
        None => Ok(Value::from(())),
    }
}

fn list_of(raw: &RawJson) -> Result<Vec<Tree>, String> {
    match Tree::of(raw).map_err(|error| unreadable(&error))? {
        Tree::List(items) => Ok(items),
        _ => Ok(Vec::new()),
    }
}

/// The text of the last message, or of its last part that has one.
fn final_text(messages: &[Tree]) -> Result<String, String> {
    let content = match messages.last() {
        Some(Tree::Map(message)) => message.get("content"),
        _ => None,
    };
    let text = match content {
        Some(Tree::Text(text)) => Some(text.as_str()),
        Some(Tree::List(parts)) => parts.iter().rev().find_map(|part| match part {
            Tree::Map(members) => members.get("text").and_then(Tree::as_text),
            _ => None,
        }),
        _ => None,
    };
    text.map(str::to_owned).ok_or_else(|| {
        "continue_final_message is set, but the final message has no text; add one or leave it out".to_owned()
    })
}

fn unreadable(error: &TreeError) -> String {
    format!("a part of the chat cannot be rendered: {error}")
}
