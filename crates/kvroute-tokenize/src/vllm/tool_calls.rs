//! Tool calls of an assistant: typed order, and arguments as an object instead of a text.

use crate::tree::{Members, Tree};

/// Normalises the calls of one message; `None` for an empty list, which is dropped.
///
/// # Errors
/// Names a call that vLLM refuses as well.
pub(super) fn normalise_tool_calls(calls: Tree) -> Result<Option<Tree>, String> {
    let Tree::List(list) = calls else { return Err("tool_calls is no array; send one".to_owned()) };
    if list.is_empty() {
        return Ok(None);
    }
    let normalised: Result<Vec<Tree>, String> = list.into_iter().map(normalise_call).collect();
    Ok(Some(Tree::List(normalised?)))
}

fn normalise_call(call: Tree) -> Result<Tree, String> {
    let wanted = "a tool call is no {id, type: \"function\", function: {name, arguments}}; send that form";
    let Tree::Map(mut given) = call else { return Err(wanted.to_owned()) };
    let Some(Tree::Map(mut given_function)) = given.take("function") else { return Err(wanted.to_owned()) };
    let arguments = parse_arguments(given_function.take("arguments"))?;
    let mut function = Members::default();
    function.set("arguments", arguments);
    function.set_some("name", given_function.take("name"));
    let mut normalised = Members::default();
    normalised.set_some("id", given.take("id"));
    normalised.set("function", Tree::Map(function));
    normalised.set_some("type", given.take("type"));
    Ok(Tree::Map(normalised))
}

/// Arguments are written as a text of JSON; whatever is not an object becomes an empty one.
fn parse_arguments(arguments: Option<Tree>) -> Result<Tree, String> {
    let parsed = match arguments {
        Some(Tree::Text(text)) => match Tree::parse(&text) {
            Ok(tree) => Some(tree),
            Err(error) if error.is_unread() => {
                return Err(format!("tool call arguments cannot be rendered: {error}"));
            }
            Err(_) => None,
        },
        other => other,
    };
    Ok(match parsed {
        Some(Tree::Map(members)) => Tree::Map(members),
        _ => Tree::Map(Members::default()),
    })
}
