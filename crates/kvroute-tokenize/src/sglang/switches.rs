//! What a request says to the template besides its messages and tools.

use kvroute_openai::ChatPrompt;
use minijinja::Value;

use crate::tree::{Members, Tree};

/// Names that mean something else to the function that renders, so that a request with one of them fails.
const RESERVED: [&str; 8] = [
    "messages",
    "conversation",
    "tools",
    "chat_template",
    "tokenize",
    "add_generation_prompt",
    "return_dict",
    "continue_final_message",
];

/// The template's further variables, and documents, which here can only be one of them.
///
/// # Errors
/// Names an argument that means something else to the engine.
pub(super) fn template_arguments(chat: &ChatPrompt) -> Result<(Vec<(String, Value)>, Value), String> {
    let mut given = match chat.chat_template_kwargs.as_ref().map(Tree::read_part).transpose()? {
        Some(Tree::Map(members)) => members,
        _ => Members::default(),
    };
    if let Some(taken) = RESERVED.iter().find(|name| given.contains(name)) {
        return Err(format!("chat_template_kwargs must not hold {taken}; send it as a field of the request"));
    }
    let effort = effort_of(chat)?;
    if let Some(thinks) = effort.thinks {
        for name in ["thinking", "enable_thinking"] {
            if !given.contains(name) {
                given.set(name, Tree::Bool(thinks));
            }
        }
    }
    let documents = given.take("documents").map_or_else(|| Value::from(()), Value::from);
    let mut arguments = Members::default();
    arguments.set_some("reasoning_effort", effort.level);
    arguments.extend(given);
    Ok((arguments.into_iter().map(|(name, value)| (name, Value::from(value))).collect(), documents))
}

/// How much the model is to think.
#[derive(Default)]
struct Effort {
    level: Option<Tree>,
    /// Whether it is to think at all, where the request tells.
    thinks: Option<bool>,
}

/// Two dialects say the same; the object wins over the field.
fn effort_of(chat: &ChatPrompt) -> Result<Effort, String> {
    let mut effort = Effort {
        level: chat.reasoning_effort.clone().map(|level| as_level(&Tree::Text(level))),
        thinks: None,
    };
    if let Some(Tree::Map(reasoning)) = chat.reasoning.as_ref().map(Tree::read_part).transpose()? {
        let level = reasoning.get("effort").or_else(|| reasoning.get("reasoning_effort"));
        effort.level = level.map(as_level).or(effort.level);
        effort.thinks = is_enabled(&reasoning).then_some(true);
    }
    if let Some(level) = &effort.level {
        effort.thinks = Some(level.as_text() != Some("none"));
    }
    Ok(effort)
}

/// A number is a fraction of the greatest effort.
#[expect(clippy::cast_precision_loss, reason = "an effort is between 0 and 1")]
fn as_level(level: &Tree) -> Tree {
    match level {
        Tree::Int(number) => Tree::Float(*number as f64),
        Tree::Text(text) => text.parse().map_or_else(|_| level.clone(), Tree::Float),
        other => other.clone(),
    }
}

fn is_enabled(reasoning: &Members) -> bool {
    match reasoning.get("enabled").or_else(|| reasoning.get("enable")) {
        Some(Tree::Bool(flag)) => *flag,
        Some(Tree::Text(text)) => {
            matches!(text.trim().to_lowercase().as_str(), "1" | "true" | "yes" | "y" | "on")
        }
        Some(Tree::Int(number)) => *number != 0,
        _ => false,
    }
}
