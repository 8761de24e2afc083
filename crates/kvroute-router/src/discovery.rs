//! The workers that a discovery finds, from what stands in a file or behind a name to what a pool is told.
//!
//! A list is believed as a whole or not at all: a line that makes no sense may be half of one that did, and a worker that is
//! not named is a worker that leaves. For the same reason nobody is taken for everybody only where that is said outright.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::config::{RankCount, WorkerConfig, WorkerSpec};

/// A worker in a JSON list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Address(String),
    Spec(WorkerSpec),
}

/// The workers of a file: a JSON list of addresses and objects, or a worker a line, its address first and then `name=value`.
pub(crate) fn read_file(content: &[u8]) -> Result<Vec<WorkerConfig>, String> {
    let text = std::str::from_utf8(content).map_err(|_| "is not UTF-8".to_owned())?;
    let workers = match text.trim_start().starts_with('[') {
        true => read_json(text)?,
        false => read_lines(text)?,
    };
    let mut seen = BTreeSet::new();
    match workers.iter().map(WorkerConfig::id).find(|id| !seen.insert(id.clone())) {
        Some(twice) => Err(format!("names worker {twice} twice; keep one")),
        None => Ok(workers),
    }
}

fn read_json(text: &str) -> Result<Vec<WorkerConfig>, String> {
    let entries: Vec<serde_json::Value> =
        serde_json::from_str(text).map_err(|error| format!("is no JSON list: {error}"))?;
    let read = |(position, entry): (usize, serde_json::Value)| {
        let spec = match serde_json::from_value(entry) {
            Ok(Entry::Address(url)) => WorkerSpec::at(url),
            Ok(Entry::Spec(spec)) => spec,
            Err(_) => {
                return Err(format!(
                    "entry {position}: expected an address, or an object with url and perhaps role, kv_events, kv_replay, \
                     dp_ranks"
                ));
            }
        };
        spec.read().map_err(|error| format!("entry {position}: {error}"))
    };
    entries.into_iter().enumerate().map(read).collect()
}

fn read_lines(text: &str) -> Result<Vec<WorkerConfig>, String> {
    let mut workers = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split_once('#').map_or(line, |(before, _)| before).trim();
        if !line.is_empty() {
            workers.push(read_line(line).map_err(|error| format!("line {number}: {error}"))?);
        }
    }
    match workers.is_empty() {
        true => Err("names no worker; write [] to say that there is none".to_owned()),
        false => Ok(workers),
    }
}

fn read_line(line: &str) -> Result<WorkerConfig, String> {
    let mut words = line.split_whitespace();
    let mut spec = WorkerSpec::at(words.next().unwrap_or_default());
    for word in words {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("{word:?} is no name=value"))?;
        let value = value.to_owned();
        let is_told_twice = match name {
            "role" => spec.role.replace(value).is_some(),
            "kv_events" => spec.kv_events.replace(value).is_some(),
            "kv_replay" => spec.kv_replay.replace(value).is_some(),
            "dp_ranks" => spec.dp_ranks.replace(RankCount::Text(value)).is_some(),
            _ => return Err(format!("{name:?} is none of role, kv_events, kv_replay, dp_ranks")),
        };
        if is_told_twice {
            return Err(format!("{name} stands there twice"));
        }
    }
    spec.read().map_err(|error| error.to_string())
}

/// The workers at these places.
pub(crate) fn at_places<'a>(
    places: impl IntoIterator<Item = &'a String>,
    is_https: bool,
) -> Result<Vec<WorkerConfig>, String> {
    let scheme = if is_https { "https" } else { "http" };
    let read = |place: &String| WorkerSpec::at(format!("{scheme}://{place}")).read();
    places.into_iter().map(read).collect::<Result<_, _>>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
