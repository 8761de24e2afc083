//! Paths as a user reads them (`pool[0].kv.temperature`) and as the table names them (`pool.kv.temperature`).

/// Takes every index out of a path.
pub(crate) fn without_indices(path: &str) -> String {
    let mut key = String::with_capacity(path.len());
    let mut inside_index = false;
    for character in path.chars() {
        match character {
            '[' => inside_index = true,
            ']' => inside_index = false,
            _ if inside_index => {}
            _ => key.push(character),
        }
    }
    key
}

/// Appends a segment.
pub(crate) fn join(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// Splits `pool[1].policy` into 1 and `pool.policy`; `None` without an index of that form.
pub(crate) fn pool_index(path: &str) -> Option<(usize, String)> {
    let (index, rest) = path.strip_prefix("pool[")?.split_once("].")?;
    Some((index.parse().ok()?, format!("pool.{rest}")))
}
