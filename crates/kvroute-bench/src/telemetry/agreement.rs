//! Whether both tell the same: every series that is not zero, of the families that a request moves.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

use super::clock::SteppingClock;
use super::contestant::{Answer, Telemetry};
use super::kvroute::Kvroute;
use super::plain::Plain;
use super::story::Story;

/// Values by name and labels.
type Series = BTreeMap<String, String>;

const MODELS: usize = 2;

/// Tells both the same and returns how many series agree.
pub(crate) fn check(stories: &[Story], chunks: u32) -> Result<usize> {
    compare(&told::<Kvroute>(stories, chunks)?, &told::<Plain>(stories, chunks)?)
}

/// Compares the families that the second one has.
pub(crate) fn compare(one: &str, other: &str) -> Result<usize> {
    let (one, other) = (series(one), series(other));
    let families: BTreeSet<&str> = other.keys().map(|series| family(series)).collect();
    let one: Series = one.into_iter().filter(|(series, _)| families.contains(family(series))).collect();
    for series in one.keys().chain(other.keys()) {
        let (left, right) = (one.get(series), other.get(series));
        ensure!(left == right, "{series}: {left:?} in one, {right:?} in the other");
    }
    Ok(one.len())
}

fn told<T: Telemetry>(stories: &[Story], chunks: u32) -> Result<String> {
    let telemetry = T::new(MODELS)?;
    let mut clock = SteppingClock::default();
    for (number, story) in stories.iter().enumerate() {
        for answer in [Answer::Whole, Answer::Stream(1), Answer::Stream(chunks)] {
            telemetry.request(number % MODELS, story, answer, &mut clock);
        }
    }
    telemetry.exposition()
}

fn series(exposition: &str) -> Series {
    let lines = exposition.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.rsplit_once(' '));
    let known = pairs.filter(|(_, value)| *value != "0");
    known.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// What stands before the labels.
fn family(series: &str) -> &str {
    series.split_once('{').map_or(series, |(name, _)| name)
}
