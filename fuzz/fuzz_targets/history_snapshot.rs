//! A snapshot of histories, as a file that anybody may have written: it is refused and teaches nothing, or what it taught is
//! written and read again as the same.
//!
//! No mutation hits a checksum. So an input is read twice: as a whole file, and as what stands between a right header and
//! the checksum that belongs to it.

#![no_main]

use std::io::Cursor;
use std::rc::Rc;

use kvroute_history::{History, Restored, Section, SnapshotError, read_snapshot, write_snapshot};
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::xxh3_128;

/// Magic and version.
const HEADER: &[u8] = b"kvrhistr\x01\0\0\0";

fuzz_target!(|input: &[u8]| {
    check(input);
    let mut file = [HEADER, input].concat();
    file.extend(xxh3_128(&file).to_le_bytes());
    check(&file);
});

/// Every section gets a history of its own that has room for it.
fn read(file: &[u8]) -> (Result<Vec<Restored>, SnapshotError>, Vec<Rc<History>>) {
    let mut histories = Vec::new();
    let read = read_snapshot(&mut Cursor::new(file), file.len() as u64, |_| {
        histories.push(Rc::new(History::new(4096 + 4 * file.len(), 1)));
        histories.last().cloned()
    });
    (read, histories)
}

fn check(file: &[u8]) {
    let (read_once, histories) = read(file);
    let sections = match read_once {
        Ok(sections) => sections,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(histories.is_empty(), "a damaged file asks for no history");
            return;
        }
    };
    let mut written = Vec::new();
    let again: Vec<_> = sections
        .iter()
        .zip(&histories)
        .map(|(read, history)| Section { domain: &read.domain, history, ages: read.ages.clone() })
        .collect();
    write_snapshot(&mut written, &again).expect("what was read is within the limits");
    let sections_again = read(&written).0.expect("what was written is a snapshot");
    for ((read, again), history) in sections.iter().zip(&sections_again).zip(&histories) {
        assert_eq!((&read.domain, &read.ages), (&again.domain, &again.ages));
        assert_eq!((read.taught, Some(again.hashes)), (again.taught, Some(history.resident())));
    }
    assert_eq!(sections.len(), sections_again.len());
}
