//! The remedy for a key that does not exist: the one that was probably meant.

use super::settings::ROWS;

/// What to say about an unknown last segment of `key` (a path without indices).
pub(crate) fn for_unknown(key: &str) -> String {
    let (section, name) = key.rsplit_once('.').map_or((None, key), |(section, name)| (Some(section), name));
    let siblings = segments_below(section);
    if let Some(nearest) = nearest(name, siblings.iter().copied()) {
        return format!("did you mean \"{nearest}\"?");
    }
    if let Some(elsewhere) = ROWS.iter().find(|row| row.key.rsplit('.').next() == Some(name)) {
        return format!("did you mean \"{}\"?", elsewhere.key);
    }
    let list = siblings.iter().map(|sibling| format!("\"{sibling}\"")).collect::<Vec<_>>().join(", ");
    format!("valid here are {list}")
}

/// The candidate that differs from `name` by typing errors only.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).clamp(1, 4))
        .map(|(_, candidate)| candidate)
}

/// Keys that may stand directly in a section, in the order of the table.
fn segments_below(section: Option<&str>) -> Vec<&'static str> {
    let mut found: Vec<&str> = Vec::new();
    for row in ROWS {
        let below = match section {
            Some(section) => row.key.strip_prefix(section).and_then(|rest| rest.strip_prefix('.')),
            None => Some(row.key),
        };
        let segment = below.and_then(|below| below.split('.').next());
        if let Some(segment) = segment.filter(|segment| !found.contains(segment)) {
            found.push(segment);
        }
    }
    found
}
