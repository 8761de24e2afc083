use kvroute_core::{BlockSize, SequenceHash};
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_128;

use super::*;
use crate::{ExportedBlock, ExportedRun};

fn block() -> impl Strategy<Value = ExportedBlock> {
    (any::<u64>(), any::<u64>()).prop_map(|(engine_key, sequence)| ExportedBlock {
        engine_key,
        sequence: SequenceHash::from_raw(sequence),
    })
}

fn run() -> impl Strategy<Value = ExportedRun> {
    (prop::sample::select(Tier::ALL.to_vec()), prop::collection::vec(block(), 0..6))
        .prop_map(|(tier, blocks)| ExportedRun { tier, blocks })
}

fn rank() -> impl Strategy<Value = RankSnapshot> {
    let last = prop::option::of(
        (any::<u64>(), any::<u64>()).prop_map(|(sequence, content)| LastMessage { sequence, content }),
    );
    let size = prop::option::of((1..=BlockSize::MAX).prop_map(|size| BlockSize::new(size).unwrap()));
    ("\\PC{0,8}", "[a-z0-9.:-]{0,12}", any::<u32>(), last, size, prop::collection::vec(run(), 0..4)).prop_map(
        |(model, worker, dp_rank, last, block_size, runs)| RankSnapshot {
            model,
            worker,
            dp_rank,
            last,
            export: RankExport { block_size, runs },
        },
    )
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    prop::collection::vec(rank(), 0..4).prop_map(|ranks| Snapshot { ranks })
}

fn one_rank() -> Snapshot {
    let blocks =
        (0..3).map(|number| ExportedBlock { engine_key: number, sequence: SequenceHash::from_raw(!number) });
    let run = ExportedRun { tier: Tier::Host, blocks: blocks.collect() };
    Snapshot {
        ranks: vec![RankSnapshot {
            model: "llama".to_owned(),
            worker: "w1".to_owned(),
            dp_rank: 3,
            last: Some(LastMessage { sequence: 9, content: 10 }),
            export: RankExport { block_size: Some(BlockSize::DEFAULT), runs: vec![run] },
        }],
    }
}

/// A header, a body that anybody may have made up, and the checksum that belongs to them.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = [MAGIC, &VERSION.to_le_bytes()[..], body].concat();
    bytes.extend(xxh3_128(&bytes).to_le_bytes());
    bytes
}

/// A header and body, once the name and worker of one rank were read.
fn rank_behind_names(behind: &[u8]) -> Vec<u8> {
    sealed(&[&1u64.to_le_bytes()[..], &[0; 16], behind, &[0; 40]].concat())
}

fn refusal(bytes: &[u8]) -> String {
    Snapshot::decode(bytes).unwrap_err().to_string()
}

#[test]
fn the_format_of_version_1_stays_as_it_is() {
    let bytes = one_rank().encode();
    let expected: Vec<u8> = [
        &b"kvrindex"[..],
        &[1, 0, 0, 0],
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[5, 0, 0, 0, 0, 0, 0, 0],
        b"llama",
        &[2, 0, 0, 0, 0, 0, 0, 0],
        b"w1",
        &[3, 0, 0, 0],
        &[1, 9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0],
        &[16, 0, 0, 0],
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[1],
        &[3, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255],
        &[1, 0, 0, 0, 0, 0, 0, 0, 254, 255, 255, 255, 255, 255, 255, 255],
        &[2, 0, 0, 0, 0, 0, 0, 0, 253, 255, 255, 255, 255, 255, 255, 255],
    ]
    .concat();
    let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
    assert_eq!(content, expected);
    assert_eq!(checksum, xxh3_128(content).to_le_bytes());
}

#[test]
fn other_files_are_named_for_what_they_are() {
    assert_eq!(refusal(b""), "not a kvroute index snapshot");
    assert_eq!(refusal(b"{\"ranks\": []}"), "not a kvroute index snapshot");
    let mut newer = one_rank().encode();
    newer[8] = 7;
    assert_eq!(refusal(&newer), "version 7, this build reads 1");
    let mut damaged = one_rank().encode();
    damaged[40] ^= 1;
    assert_eq!(refusal(&damaged), "checksum differs: the file is damaged or cut short");
    let whole = one_rank().encode();
    assert_eq!(refusal(&whole[..whole.len() / 2]), "checksum differs: the file is damaged or cut short");
    assert_eq!(refusal(MAGIC), "checksum differs: the file is damaged or cut short");
}

#[test]
fn content_that_makes_no_sense_is_named_with_its_place() {
    let many = u64::MAX.to_le_bytes();
    assert_eq!(refusal(&sealed(&many)), "malformed at byte 20: more ranks than bytes");
    assert_eq!(refusal(&sealed(&[1])), "malformed at byte 12: the content ends too early");
    assert_eq!(refusal(&sealed(&[0; 9])), "malformed at byte 20: something stands behind the last rank");
    let long_name = [&1u64.to_le_bytes()[..], &many, &[0; 40]].concat();
    assert_eq!(refusal(&sealed(&long_name)), "malformed at byte 28: a name longer than the file");
    let bad_name = [&1u64.to_le_bytes()[..], &1u64.to_le_bytes(), &[0xff], &[0; 40]].concat();
    assert_eq!(refusal(&sealed(&bad_name)), "malformed at byte 29: a name is not UTF-8");
    let at_36 = |behind: &[u8]| refusal(&rank_behind_names(behind));
    assert_eq!(at_36(&[0, 0, 0, 0, 2]), "malformed at byte 41: a last message is there or not");
    assert_eq!(at_36(&[0, 0, 0, 0, 0, 0, 0, 0, 1]), "malformed at byte 45: no engine has such blocks");
    let runs = [&[0; 9][..], &many].concat();
    assert_eq!(at_36(&runs), "malformed at byte 53: more runs than bytes");
    let tier = [&[0; 9][..], &1u64.to_le_bytes(), &[3]].concat();
    assert_eq!(at_36(&tier), "malformed at byte 54: an unknown tier");
    let blocks = [&[0; 9][..], &1u64.to_le_bytes(), &[2], &3u64.to_le_bytes()].concat();
    assert_eq!(at_36(&blocks), "malformed at byte 62: more blocks than bytes");
}

proptest! {
    #[test]
    fn what_was_written_is_read(snapshot in snapshot()) {
        let bytes = snapshot.encode();
        prop_assert_eq!(Snapshot::decode(&bytes), Ok(snapshot.clone()));
        prop_assert!(bytes.len() <= snapshot.encoded_len());
    }

    #[test]
    fn every_changed_byte_is_refused(
        snapshot in snapshot(),
        position in any::<prop::sample::Index>(),
        change in 1..=255u8,
    ) {
        let mut bytes = snapshot.encode();
        let position = position.index(bytes.len());
        bytes[position] ^= change;
        prop_assert!(Snapshot::decode(&bytes).is_err());
    }

    #[test]
    fn every_truncation_is_refused(snapshot in snapshot()) {
        let bytes = snapshot.encode();
        for len in 0..bytes.len() {
            prop_assert!(Snapshot::decode(&bytes[..len]).is_err());
        }
        prop_assert!(Snapshot::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    /// With a checksum that fits, so that the reader itself is asked.
    #[test]
    fn a_made_up_body_is_refused_or_is_what_its_content_encodes_to(
        body in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => 0..4u8, 1 => any::<u8>()], 0..160),
    ) {
        let bytes = sealed(&body);
        if let Ok(read) = Snapshot::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }

    #[test]
    fn a_damaged_body_is_refused_or_is_what_its_content_encodes_to(
        snapshot in snapshot(),
        position in any::<prop::sample::Index>(),
        value in any::<u8>(),
        len in any::<prop::sample::Index>(),
    ) {
        let encoded = snapshot.encode();
        let mut body = encoded[12..encoded.len() - CHECKSUM].to_vec();
        let position = position.index(body.len());
        body[position] = value;
        body.truncate(body.len() - len.index(body.len()) % 3);
        let bytes = sealed(&body);
        if let Ok(read) = Snapshot::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }
}
