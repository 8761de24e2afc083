//! Message content: parts become one text or stay parts, as the template takes them.

use crate::template::ContentFormat;
use crate::tree::{Members, Tree};

/// Normalises the content of one message.
///
/// # Errors
/// Names a part that is no text or that SGLang refuses.
pub(super) fn normalise_content(content: Tree, role: &str, format: ContentFormat) -> Result<Tree, String> {
    let parts = match content {
        Tree::Text(text) => return Ok(Tree::Text(text)),
        Tree::List(parts) => parts,
        _ => return Err("content is neither text nor an array of parts; send one of them".to_owned()),
    };
    let mut kept = Vec::with_capacity(parts.len());
    for part in parts {
        kept.extend(read_part(part, role)?);
    }
    Ok(match format {
        ContentFormat::Parts => Tree::List(kept),
        ContentFormat::Text => joined(&kept),
    })
}

/// One text of a tool's answer whose parts are all texts.
pub(super) fn joined_tool_answer(content: Tree) -> Tree {
    match content {
        Tree::List(parts) if parts.iter().all(|part| text_of(part).is_some()) => joined(&parts),
        other => other,
    }
}

/// Parts that are no texts have no place in one text.
fn joined(parts: &[Tree]) -> Tree {
    let texts: Vec<&str> = parts.iter().filter_map(text_of).collect();
    Tree::Text(texts.join(" "))
}

fn text_of(part: &Tree) -> Option<&str> {
    match part {
        Tree::Map(members) => members.get("text").and_then(Tree::as_text),
        _ => None,
    }
}

/// A part as the template sees it; none for an assistant's thoughts, which no template sees as a part.
fn read_part(part: Tree, role: &str) -> Result<Option<Tree>, String> {
    let Tree::Map(mut given) = part else {
        return Err("a content part is no object; send {type, text}".to_owned());
    };
    let kind = given.take("type");
    let kind = kind.as_ref().and_then(Tree::as_text).unwrap_or_default();
    let field = match kind {
        "text" => "text",
        "tool_reference" => "name",
        "thinking" | "reasoning" if role == "assistant" => return Ok(None),
        "thinking" | "reasoning" => {
            return Err("only an assistant's content has thoughts; leave them out".to_owned());
        }
        other => {
            return Err(format!("content of type \"{other}\" is no text, so its tokens cannot be counted"));
        }
    };
    let Some(Tree::Text(value)) = given.take(field) else {
        return Err(format!("a content part of type \"{kind}\" has no {field}; send one"));
    };
    let mut read = Members::default();
    read.set("type", Tree::Text(kind.to_owned()));
    read.set(field, Tree::Text(value));
    Ok(Some(Tree::Map(read)))
}
