use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::time::Duration;

use kvroute_core::SequenceHash;
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_128;

use super::*;

fn domain(model: &str) -> Domain {
    Domain {
        model: model.to_owned(),
        block_size: 16,
        hash_scheme: "hash-1".to_owned(),
        namespace_scheme: "names-1".to_owned(),
    }
}

fn taught(hashes: impl IntoIterator<Item = u64>) -> History {
    let history = History::new(400_000, 1);
    history.teach(&hashes.into_iter().map(SequenceHash::from_raw).collect::<Vec<_>>());
    history
}

fn written(sections: &[(Domain, &History, Vec<AgeMark>)]) -> Vec<u8> {
    let sections: Vec<_> = sections
        .iter()
        .map(|(domain, history, ages)| Section { domain, history, ages: ages.clone() })
        .collect();
    let mut bytes = Vec::new();
    write_snapshot(&mut bytes, &sections).unwrap();
    bytes
}

fn read(bytes: &[u8], history: &History) -> Result<Vec<Restored>, SnapshotError> {
    read_snapshot(&mut Cursor::new(bytes), 1 << 30, |_| Some(history))
}

/// What is wrong with a file, which must teach nothing.
fn refusal(bytes: &[u8]) -> String {
    let history = taught([]);
    let error = read(bytes, &history).unwrap_err();
    assert_eq!(history.taught(), 0);
    error.to_string()
}

fn all(history: &History) -> Vec<u64> {
    let (mut hashes, mut next) = (Vec::new(), Some(crate::ExportCursor::default()));
    while let Some(cursor) = next {
        next = history.export(cursor, &mut hashes);
    }
    hashes.iter().map(|hash| hash.get()).collect()
}

/// A header, a body that anybody may have made up, and the checksum that belongs to them.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = [MAGIC, &VERSION.to_le_bytes()[..], body].concat();
    bytes.extend(xxh3_128(&bytes).to_le_bytes());
    bytes
}

fn count(count: u32) -> [u8; 4] {
    count.to_le_bytes()
}

/// One section up to where its marks begin.
fn section(behind: &[u8]) -> Vec<u8> {
    sealed(&[&count(1)[..], &count(0), &count(16), &count(0), &count(0), behind].concat())
}

#[test]
fn the_format_of_version_1_stays_as_it_is() {
    let ages = vec![AgeMark { age: Duration::from_nanos(258), taught_since: 7 }];
    let bytes = written(&[(domain("llama"), &taught([5, u64::MAX, 0]), ages)]);
    let expected: Vec<u8> = [
        &b"kvrhistr"[..],
        &[1, 0, 0, 0],
        &[1, 0, 0, 0],
        &[5, 0, 0, 0],
        b"llama",
        &[16, 0, 0, 0],
        &[6, 0, 0, 0],
        b"hash-1",
        &[7, 0, 0, 0],
        b"names-1",
        &[1, 0, 0, 0],
        &[2, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0],
        &[3, 0, 0, 0],
        &[5, 0, 0, 0, 0, 0, 0, 0],
        &[255; 8],
        &[0; 8],
        &[0; 4],
    ]
    .concat();
    let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
    assert_eq!(content, expected);
    assert_eq!(checksum, xxh3_128(content).to_le_bytes());
}

#[test]
fn every_history_gets_its_own_section() {
    let (short, long) = (taught(0..10), taught(100..25_000));
    let ages = vec![AgeMark { age: Duration::from_secs(9), taught_since: 3 }];
    let bytes = written(&[(domain("a"), &short, ages.clone()), (domain("b"), &long, Vec::new())]);
    let (first, second) = (taught([]), taught([3]));
    let restored = read_snapshot(&mut Cursor::new(&bytes), 1 << 30, |domain| match domain.model.as_str() {
        "a" => Some(&first),
        _ => Some(&second),
    });
    let restored = restored.unwrap();
    assert_eq!(
        (all(&first), all(&second)),
        ((0..10).collect(), [3].into_iter().chain(100..25_000).collect())
    );
    assert_eq!(
        restored[0],
        Restored { domain: domain("a"), ages, hashes: Blocks::new(10), taught: Some(Blocks::new(10)) }
    );
    assert_eq!((restored[1].hashes.get(), restored[1].taught.unwrap().get()), (24_900, 24_900));
}

#[test]
fn a_section_that_nobody_wants_is_passed_over() {
    let bytes = written(&[(domain("a"), &taught(0..9000), vec![]), (domain("b"), &taught([5]), vec![])]);
    let history = taught([]);
    let accept = |domain: &Domain| (domain.model == "b").then_some(&history);
    let restored = read_snapshot(&mut Cursor::new(&bytes), 1 << 30, accept).unwrap();
    assert_eq!(all(&history), [5]);
    assert_eq!((restored[0].hashes.get(), restored[0].taught), (9000, None));
}

#[test]
fn a_smaller_history_keeps_the_youngest() {
    let bytes = written(&[(domain("a"), &taught(0..20_000), vec![])]);
    let small = History::new(50_000, 2);
    let capacity = small.capacity().get();
    read(&bytes, &small).unwrap();
    assert_eq!(all(&small), (20_000 - capacity..20_000).collect::<Vec<_>>());
}

#[test]
fn other_files_are_named_for_what_they_are() {
    let whole = written(&[(domain("a"), &taught(0..9000), vec![])]);
    let checksum = "checksum differs: the file is damaged or cut short";
    assert_eq!(refusal(b""), "not a kvroute history snapshot");
    assert_eq!(refusal(&[b'x'; 100]), "not a kvroute history snapshot");
    let mut newer = whole.clone();
    newer[8] = 7;
    assert_eq!(refusal(&newer), "version 7, this build reads 1");
    let mut damaged = whole.clone();
    damaged[40_000] ^= 1;
    assert_eq!(refusal(&damaged), checksum);
    assert_eq!(refusal(&whole[..whole.len() / 2]), checksum);
    let mut longer = whole;
    longer.push(0);
    assert_eq!(refusal(&longer), checksum);
}

#[test]
fn a_file_that_is_too_long_is_not_read_at_all() {
    struct Unreadable(u64);
    impl Read for Unreadable {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("read"))
        }
    }
    impl Seek for Unreadable {
        fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
            Ok(self.0)
        }
    }
    let read =
        |bytes| read_snapshot(&mut Unreadable(bytes), 1000, |_| None::<&History>).unwrap_err().to_string();
    assert_eq!(read(1001), "1001 bytes, where at most 1000 are expected");
    assert_eq!(read(1000), "cannot be read: read");
}

#[test]
fn content_that_makes_no_sense_is_named_with_its_place() {
    let many = count(u32::MAX);
    assert_eq!(refusal(&sealed(&many)), "malformed at byte 16: too many sections");
    assert_eq!(refusal(&sealed(&count(1))), "malformed at byte 16: the content ends too early");
    assert_eq!(refusal(&sealed(&[0; 5])), "malformed at byte 16: something stands behind the last section");
    assert_eq!(refusal(&sealed(&[count(1), many].concat())), "malformed at byte 20: a name that is too long");
    let name = [&count(1)[..], &count(1), &[0xff]].concat();
    assert_eq!(refusal(&sealed(&name)), "malformed at byte 21: a name is not UTF-8");
    assert_eq!(refusal(&section(&many)), "malformed at byte 36: too many marks");
    let hashes = [&count(0)[..], &many].concat();
    assert_eq!(refusal(&section(&hashes)), "malformed at byte 40: too many hashes in a piece");
    let missing = [&count(0)[..], &count(2), &[0; 8], &count(0)].concat();
    assert_eq!(refusal(&section(&missing)), "malformed at byte 40: the content ends too early");
}

#[test]
fn names_that_do_not_fit_are_not_written() {
    let (domain, history) = (domain(&"x".repeat(5000)), taught([]));
    let error =
        write_snapshot(&mut Vec::new(), &[Section { domain: &domain, history: &history, ages: vec![] }]);
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        models in prop::collection::vec(("\\PC{0,8}", prop::collection::vec(any::<u64>(), 0..60)), 0..4),
        ages in prop::collection::vec((any::<u64>(), any::<u64>()), 0..5),
    ) {
        let histories: Vec<_> = models.iter().map(|(_, hashes)| taught(hashes.iter().copied())).collect();
        let ages: Vec<_> = ages
            .iter()
            .map(|(nanos, taught_since)| AgeMark { age: Duration::from_nanos(*nanos), taught_since: *taught_since })
            .collect();
        let sections: Vec<_> = models
            .iter()
            .zip(&histories)
            .map(|((model, _), history)| (domain(model), history, ages.clone()))
            .collect();
        let bytes = written(&sections);
        let back: Vec<_> = models.iter().map(|_| taught([])).collect();
        let mut next = back.iter();
        let restored = read_snapshot(&mut Cursor::new(&bytes), bytes.len() as u64, |_| next.next()).unwrap();
        for (restored, (domain, history, _)) in restored.iter().zip(&sections) {
            prop_assert_eq!((&restored.domain, &restored.ages), (domain, &ages));
            prop_assert_eq!(restored.taught, Some(history.resident()));
        }
        for (back, history) in back.iter().zip(&histories) {
            prop_assert_eq!(all(back), all(history));
        }
    }

    #[test]
    fn every_changed_byte_is_refused(hashes in 0u64..40, position in any::<prop::sample::Index>(), change in 1..=255u8) {
        let mut bytes = written(&[(domain("m"), &taught(0..hashes), vec![])]);
        let position = position.index(bytes.len());
        bytes[position] ^= change;
        refusal(&bytes);
    }

    #[test]
    fn every_truncation_is_refused(hashes in 0u64..40) {
        let bytes = written(&[(domain("m"), &taught(0..hashes), vec![])]);
        (0..bytes.len()).for_each(|len| { refusal(&bytes[..len]); });
    }

    /// With a checksum that fits, so that the reader itself is asked.
    #[test]
    fn a_made_up_body_is_read_or_refused_for_a_reason(
        body in prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => 0..4u8, 1 => any::<u8>()], 0..160),
    ) {
        let history = taught([]);
        if let Err(error) = read(&sealed(&body), &history) {
            prop_assert_eq!(history.taught(), 0);
            prop_assert!(error.to_string().starts_with("malformed at byte "), "{}", error);
        }
    }
}
