//! The model's chat template, run as Hugging Face's `apply_chat_template` runs it.

mod content_format;
mod continuation;
mod generation;
mod statements;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, Value};

pub(crate) use self::content_format::ContentFormat;
pub(crate) use self::continuation::OpenTurn;
use crate::python;

/// Name of the template for everything that has no template of its own.
const DEFAULT: &str = "default";
/// Name of the template for requests with tools.
const TOOL_USE: &str = "tool_use";

/// What rendering one chat may cost: a step of the template counts one, and so do 64 bytes that it writes or keeps. A chat
/// of a megabyte needs less than a twentieth of it; a template that never ends has used it up within a second.
const FUEL: u64 = 10_000_000;

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
    /// The same as SGLang finds it out.
    pub(crate) sglang_content: ContentFormat,
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
        environment.set_fuel(Some(FUEL));
        environment.set_syntax(syntax.map_err(|error| error.to_string())?);
        python::add_to(&mut environment);
        let mut by_name = BTreeMap::new();
        for (name, source) in sources {
            if statements::adds_to_safe_text(&source) {
                return Err(format!(
                    "chat template \"{name}\" adds to text that it marks as safe, which escapes what is added; only the \
                     engine's own Jinja does so, let the engine tokenize"
                ));
            }
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
        let content_format = ContentFormat::detect(source);
        Self { content_format, sglang_content: ContentFormat::detect_as_sglang(source), knows_developer }
    }
}

/// The innermost reason, with the line of the template where it has one.
fn describe(error: &minijinja::Error) -> String {
    let reason = match error.detail() {
        _ if error.kind() == ErrorKind::OutOfFuel => {
            "it takes more steps or memory than any chat needs; repair its loops".to_owned()
        }
        Some(detail) => detail.to_owned(),
        None => error.kind().to_string(),
    };
    match error.line() {
        Some(line) => format!("{reason} (line {line} of the template)"),
        None => reason,
    }
}
