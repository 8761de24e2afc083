//! The model's chat template, run as Hugging Face's `apply_chat_template` runs it.

mod content_format;
mod generation;
mod statements;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Value};

pub(crate) use self::content_format::ContentFormat;
use crate::python;

/// Name of the template for everything that has no template of its own.
const DEFAULT: &str = "default";
/// Name of the template for requests with tools.
const TOOL_USE: &str = "tool_use";

/// The chat templates of one model, compiled.
#[derive(Debug)]
pub(crate) struct ChatTemplates {
    environment: Environment<'static>,
    by_name: BTreeMap<String, TemplateTraits>,
    special_tokens: Vec<(String, Value)>,
}

/// What engines find out about a template by looking at its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemplateTraits {
    /// Whether it takes message content apart or prints it.
    pub(crate) content_format: ContentFormat,
    /// Whether it names the role `developer`.
    pub(crate) knows_developer: bool,
}

/// What a template is rendered with.
#[derive(Clone, Debug)]
pub(crate) struct TemplateInput {
    /// The list of messages.
    pub(crate) messages: Value,
    /// The list of tools, or none.
    pub(crate) tools: Value,
    /// The list of documents, or none.
    pub(crate) documents: Value,
    /// Whether to end with the start of an assistant turn.
    pub(crate) add_generation_prompt: bool,
    /// Further variables; they win over special tokens of the same name.
    pub(crate) arguments: Vec<(String, Value)>,
}

// === impl ChatTemplates ===

impl ChatTemplates {
    /// Compiles templates by name.
    ///
    /// # Errors
    /// Names the template and the line that cannot be compiled.
    pub(crate) fn compile(
        sources: BTreeMap<String, String>,
        special_tokens: Vec<(String, Value)>,
    ) -> Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| error.to_string())?);
        python::add_to(&mut environment);
        let mut by_name = BTreeMap::new();
        for (name, source) in sources {
            by_name.insert(name.clone(), TemplateTraits::of(&source));
            environment.add_template_owned(name.clone(), generation::without_tags(&source)).map_err(
                |error| format!("chat template \"{name}\" does not compile: {}", describe(&error)),
            )?;
        }
        Ok(Self { environment, by_name, special_tokens })
    }

    /// The name of the template for a request, as Hugging Face chooses it.
    ///
    /// # Errors
    /// Names the templates that there are, when none of them is for requests like this.
    pub(crate) fn choose(&self, has_tools: bool) -> Result<(&str, TemplateTraits), String> {
        let tool_use = if has_tools { self.by_name.get_key_value(TOOL_USE) } else { None };
        let chosen = tool_use.or_else(|| self.by_name.get_key_value(DEFAULT));
        chosen.map(|(name, traits)| (name.as_str(), *traits)).ok_or_else(|| {
            let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            format!("no chat template named \"{DEFAULT}\", only {}; name one so", names.join(", "))
        })
    }

    /// Renders a chat.
    ///
    /// # Errors
    /// What the template itself raised, or what in it failed.
    pub(crate) fn render(&self, name: &str, input: TemplateInput) -> Result<String, String> {
        let mut variables: BTreeMap<String, Value> = self.special_tokens.iter().cloned().collect();
        variables.extend(input.arguments);
        variables.insert("messages".to_owned(), input.messages);
        variables.insert("tools".to_owned(), input.tools);
        variables.insert("documents".to_owned(), input.documents);
        variables.insert("add_generation_prompt".to_owned(), Value::from(input.add_generation_prompt));
        let rendered = self
            .environment
            .get_template(name)
            .and_then(|template| template.render(Value::from_pairs(variables)));
        rendered.map_err(|error| format!("the chat template refused the request: {}", describe(&error)))
    }
}

// === impl TemplateTraits ===

impl TemplateTraits {
    fn of(source: &str) -> Self {
        let knows_developer = source.contains("\"developer\"") || source.contains("'developer'");
        Self { content_format: ContentFormat::detect(source), knows_developer }
    }
}

/// The innermost reason, with the line of the template where it has one.
fn describe(error: &minijinja::Error) -> String {
    let reason = match error.detail() {
        Some(detail) => detail.to_owned(),
        None => error.kind().to_string(),
    };
    match error.line() {
        Some(line) => format!("{reason} (line {line} of the template)"),
        None => reason,
    }
}

/// Cuts a rendered chat behind the text of its last message, as `continue_final_message` asks.
///
/// # Errors
/// When the template dropped that text.
pub(crate) fn cut_behind(rendered: &str, final_text: &str) -> Result<String, String> {
    let trimmed = final_text.trim();
    let Some(place) = rendered.rfind(trimmed) else {
        return Err("continue_final_message is set, but the chat template drops the final message".to_owned());
    };
    // A template that kept the white space behind the text keeps it here as well.
    let from_first = final_text.trim_start();
    let kept = if rendered[place..].starts_with(from_first) && from_first == final_text {
        from_first
    } else {
        trimmed
    };
    Ok(rendered[..place + kept.len()].to_owned())
}
