//! From a chat request to the text that the engine will tokenize.

use kvroute_openai::{ChatPrompt, RawJson};
use minijinja::Value;

use crate::ChatRules;
use crate::template::{ChatTemplates, OpenTurn, TemplateInput, TemplateTraits};
use crate::tree::{Members, Tree};
use crate::{sglang, vllm};

/// Names that a client's template arguments must not take: they have another meaning to the engine.
const RESERVED: [&str; 5] = ["messages", "tools", "conversation", "chat_template", "tokenize"];

/// What becomes of a chat before it is tokenized.
#[derive(Debug)]
pub(crate) struct Rendered {
    /// What the template made.
    pub(crate) text: String,
    /// Text of the assistant's turn that is to be continued, where the engine tokenizes it on its own.
    pub(crate) continued: Option<String>,
}

/// How a chat is normalised on its way into the template.
#[derive(Clone, Copy)]
struct Normalisation {
    messages: fn(Vec<Tree>, TemplateTraits) -> Result<Vec<Tree>, String>,
    tools: fn(Vec<Tree>) -> Result<Vec<Tree>, String>,
}

/// Renders a chat.
///
/// # Errors
/// What is wrong with the request, or what the template said.
pub(super) fn render(
    templates: &ChatTemplates,
    chat: &ChatPrompt,
    rules: ChatRules,
) -> Result<Rendered, String> {
    let normalisation = match rules {
        ChatRules::Plain => Normalisation { messages: |messages, _| Ok(messages), tools: Ok },
        ChatRules::Vllm => Normalisation { messages: vllm::normalise_messages, tools: vllm::normalise_tools },
        ChatRules::Sglang => return sglang::render(templates, chat),
    };
    let text = render_with(templates, chat, normalisation)?;
    Ok(Rendered { text, continued: None })
}

fn render_with(
    templates: &ChatTemplates,
    chat: &ChatPrompt,
    normalisation: Normalisation,
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
    let mut messages = (normalisation.messages)(Tree::list_of(&chat.messages)?, traits)?;
    let open_turn = chat.continue_final_message.then(|| OpenTurn::mark(&mut messages)).transpose()?;
    let input = TemplateInput {
        messages: messages.into_iter().map(Value::from).collect(),
        tools: optional_list(chat.tools.as_ref(), normalisation.tools)?,
        documents: optional_list(chat.documents.as_ref(), Ok)?,
        add_generation_prompt: chat.add_generation_prompt,
        arguments: template_arguments(chat)?,
    };
    let rendered = templates.render(name, input)?;
    match open_turn {
        Some(turn) => turn.cut(rendered),
        None => Ok(rendered),
    }
}

/// `chat_template_kwargs`, over which the request's own fields win.
fn template_arguments(chat: &ChatPrompt) -> Result<Vec<(String, Value)>, String> {
    let mut arguments = match &chat.chat_template_kwargs {
        Some(raw) => match Tree::read_part(raw)? {
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
        Some(json) => Ok(normalise(Tree::list_of(json)?)?.into_iter().map(Value::from).collect()),
        None => Ok(Value::from(())),
    }
}
