//! A snapshot of the index, as a file that anybody may have written: it is refused, or it is byte for byte what its content
//! is written as.
//!
//! No mutation hits a checksum. So an input is read twice: as a whole file, and as what stands between a right header and
//! the checksum that belongs to it.

#![no_main]

use kvroute_index::Snapshot;
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::xxh3_128;

/// Magic and version.
const HEADER: &[u8] = b"kvrindex\x01\0\0\0";

fuzz_target!(|input: &[u8]| {
    check(input);
    let mut file = [HEADER, input].concat();
    file.extend(xxh3_128(&file).to_le_bytes());
    check(&file);
});

fn check(file: &[u8]) {
    match Snapshot::decode(file) {
        Ok(snapshot) => assert_eq!(snapshot.encode(), file),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
