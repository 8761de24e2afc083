//! Mutation of JSON as a tree: what stands behind a JSON parser is hardly ever reached by changing single bytes.

use serde_json::{Value, json};

/// Mutates the text at the start of `data` and returns its new length; `None`, and nothing changed, where it is no JSON or
/// would become longer than `longest`.
pub fn mutate_in_place(data: &mut [u8], length: usize, longest: usize, seed: u32) -> Option<usize> {
    let text = mutate(&data[..length], seed).filter(|text| text.len() <= longest)?;
    data[..text.len()].copy_from_slice(&text);
    Some(text.len())
}

/// A changed copy of a JSON text: a value anywhere in it is replaced by another of its values or by a simple one, or is
/// emptied by one of its own. `None` for what is no JSON.
fn mutate(text: &[u8], seed: u32) -> Option<Vec<u8>> {
    let mut tree = serde_json::from_slice(text).ok()?;
    let mut random = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut below = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        random as usize % bound
    };
    let count = count(&tree);
    let donor = find(&mut tree, below(count))?.clone();
    let simple = simple_values();
    let place = find(&mut tree, below(count))?;
    match below(4) {
        0 => *place = donor,
        1 => remove(place, below(usize::from(u16::MAX))),
        _ => *place = simple[below(simple.len())].clone(),
    }
    Some(tree.to_string().into_bytes())
}

fn simple_values() -> [Value; 11] {
    [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(1.5e300),
        json!(""),
        json!("é\u{0}\n{{ x }}<|im_end|>"),
        json!([]),
        json!({}),
        json!([{"type": "text", "text": "a"}, "b"]),
    ]
}

/// Values in a tree, itself included.
fn count(tree: &Value) -> usize {
    1 + match tree {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// The value with this number, counted from the root in the order of the text.
fn find(tree: &mut Value, number: usize) -> Option<&mut Value> {
    let mut left = number.checked_sub(1);
    let Some(inside) = &mut left else { return Some(tree) };
    let children: Vec<&mut Value> = match tree {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(members) => members.values_mut().collect(),
        _ => return None,
    };
    for child in children {
        let size = count(child);
        if *inside < size {
            return find(child, *inside);
        }
        *inside -= size;
    }
    None
}

fn remove(place: &mut Value, random: usize) {
    match place {
        Value::Array(items) if !items.is_empty() => drop(items.remove(random % items.len())),
        Value::Object(members) if !members.is_empty() => {
            let key = members.keys().nth(random % members.len()).cloned();
            key.map(|name| members.shift_remove(&name));
        }
        other => *other = Value::Null,
    }
}
