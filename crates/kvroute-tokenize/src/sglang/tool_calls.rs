//! Tool calls of an assistant: typed order, null for what is absent, and arguments as an object instead of a text.

use crate::tree::{Members, Tree};

const WANTED: &str =
    "a tool call is no {id, type: \"function\", function: {name, arguments}}; send that form";

/// Normalises the calls of one message.
///
/// # Errors
/// Names a call that SGLang refuses as well.
pub(super) fn normalise_tool_calls(calls: Tree) -> Result<Vec<Tree>, String> {
    let Tree::List(list) = calls else { return Err("tool_calls is no array; send one".to_owned()) };
    list.into_iter().map(normalise_call).collect()
}

fn normalise_call(call: Tree) -> Result<Tree, String> {
    let Tree::Map(mut given) = call else { return Err(WANTED.to_owned()) };
    let Some(Tree::Map(mut given_function)) = given.take("function") else { return Err(WANTED.to_owned()) };
    if given.get("type").is_some_and(|kind| kind.as_text() != Some("function")) {
        return Err(WANTED.to_owned());
    }
    let arguments = given_function.take("arguments").unwrap_or(Tree::Null);
    if !matches!(arguments, Tree::Null | Tree::Text(_) | Tree::Map(_)) {
        return Err(WANTED.to_owned());
    }
    let mut function = Members::default();
    function.set("name", given_function.take("name").unwrap_or(Tree::Null));
    function.set("arguments", arguments);
    let mut normalised = Members::default();
    normalised.set("id", given.take("id").unwrap_or(Tree::Null));
    normalised.set("index", given.take("index").unwrap_or(Tree::Null));
    normalised.set("type", Tree::Text("function".to_owned()));
    normalised.set("function", Tree::Map(function));
    Ok(Tree::Map(normalised))
}

/// Puts an object in the place of arguments that are written as a text of JSON.
///
/// # Errors
/// When the text is no JSON object.
pub(super) fn parse_arguments(call: Tree) -> Result<Tree, String> {
    let Tree::Map(mut members) = call else { return Ok(call) };
    let Some(Tree::Map(mut function)) = members.get("function").cloned() else {
        return Ok(Tree::Map(members));
    };
    if let Some(Tree::Text(text)) = function.get("arguments") {
        let parsed = read_object(text)?;
        function.set("arguments", parsed);
        members.set("function", Tree::Map(function));
    }
    Ok(Tree::Map(members))
}

fn read_object(text: &str) -> Result<Tree, String> {
    match Tree::parse(text) {
        Ok(Tree::Map(members)) => Ok(with_floats_for_long_integers(Tree::Map(members))),
        Err(error) if error.is_unread() => Err(format!("tool call arguments cannot be rendered: {error}")),
        _ => Err("function.arguments of an assistant's call is no JSON object; send one".to_owned()),
    }
}

/// The parser that SGLang uses here knows whole numbers of 64 bits; longer ones are floats to it.
fn with_floats_for_long_integers(tree: Tree) -> Tree {
    match tree {
        #[expect(clippy::cast_precision_loss, reason = "the engine loses the same digits")]
        Tree::Int(number) if i64::try_from(number).is_err() && u64::try_from(number).is_err() => {
            Tree::Float(number as f64)
        }
        Tree::List(items) => Tree::List(items.into_iter().map(with_floats_for_long_integers).collect()),
        Tree::Map(members) => Tree::Map(members.map_values(with_floats_for_long_integers)),
        other => other,
    }
}
