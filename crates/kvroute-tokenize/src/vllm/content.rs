//! Message content: text and parts brought into the one form that the template takes.

use crate::template::ContentFormat;
use crate::tree::{Members, Tree};

/// A line that a coding client puts in front of its system text. It changes with every request, so vLLM
/// takes it out to keep the prefix reusable.
const BILLING_HEADER: &str = "x-anthropic-billing-header";

/// Normalises the content of one message.
///
/// # Errors
/// Names a part that is no text.
pub(super) fn normalise_content(
    content: Option<Tree>,
    role: &str,
    format: ContentFormat,
) -> Result<Tree, String> {
    let parts = match content {
        None => Vec::new(),
        Some(Tree::List(parts)) => parts,
        Some(single) => vec![single],
    };
    let mut texts = Vec::with_capacity(parts.len());
    for part in parts {
        texts.extend(part_text(part)?);
    }
    if role == "system" {
        texts = texts.into_iter().filter_map(without_billing_header).collect();
    }
    Ok(match format {
        // Engines join a tool's answer in any case, because few templates expect parts there.
        ContentFormat::Parts if role != "tool" => Tree::List(texts.into_iter().map(text_part).collect()),
        ContentFormat::Parts => Tree::Text(texts.join("\n")),
        ContentFormat::Text => {
            texts.retain(|text| !text.is_empty());
            Tree::Text(texts.join("\n"))
        }
    })
}

/// The text of a part; `None` for one whose text is null.
fn part_text(part: Tree) -> Result<Option<String>, String> {
    let mut members = match part {
        Tree::Text(text) => return Ok(Some(text)),
        Tree::Map(members) => members,
        _ => return Err("a content part is neither text nor an object; send {type, text}".to_owned()),
    };
    let kind = members.take("type");
    let kind = kind.as_ref().and_then(Tree::as_text).unwrap_or_default();
    let field = match kind {
        "text" | "input_text" | "output_text" => "text",
        "refusal" => "refusal",
        "thinking" => "thinking",
        other => {
            return Err(format!("content of type \"{other}\" is no text, so its tokens cannot be counted"));
        }
    };
    match members.take(field) {
        Some(Tree::Text(text)) => Ok(Some(text)),
        None if matches!(kind, "text" | "refusal") => Ok(None),
        _ => Err(format!("a content part of type \"{kind}\" has no {field}; send one")),
    }
}

fn text_part(text: String) -> Tree {
    let mut part = Members::default();
    part.set("type", Tree::Text("text".to_owned()));
    part.set("text", Tree::Text(text));
    Tree::Map(part)
}

fn without_billing_header(text: String) -> Option<String> {
    if !text.starts_with(BILLING_HEADER) {
        return Some(text);
    }
    let (_, rest) = text.split_once('\n')?;
    (!rest.is_empty()).then(|| rest.to_owned())
}
