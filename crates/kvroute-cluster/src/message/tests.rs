use kvroute_core::{BlockSize, ModelName};
use proptest::prelude::*;

use super::*;

fn domain(model: &str, block_size: u32) -> Domain {
    Domain {
        model: model.to_owned(),
        block_size,
        hash_scheme: "hash-1".to_owned(),
        namespace_scheme: "namespace-1".to_owned(),
    }
}

fn hashes(values: &[u64]) -> Vec<SequenceHash> {
    values.iter().copied().map(SequenceHash::from_raw).collect()
}

/// Writes anew what was read.
fn again(message: &Message<'_>) -> bytes::Bytes {
    let origin = message.origin;
    match &message.body {
        Body::Update { sequence, domain, hashes } => update(origin, *sequence, *domain, &hashes.to_vec()),
        Body::Announcement { wants_answer, offers } => announcement(origin, *wants_answer, offers),
        Body::Goodbye => goodbye(origin),
        Body::Request { transfer, domain } => request(origin, *transfer, *domain),
        Body::Part { transfer, index, end, domain, hashes } => {
            part(origin, (*transfer, *index), *end, *domain, &hashes.to_vec())
        }
    }
}

/// One message of every kind.
fn samples() -> Vec<bytes::Bytes> {
    let (origin, domain) = (Origin::from_raw(0x0102_0304_0506), domain("qwen3-8b", 16));
    let domain = DomainRef::of(&domain);
    let offers = [Offer { domain, resident: Blocks::new(7) }];
    vec![
        update(origin, 9, domain, &hashes(&[1, u64::MAX, 3])),
        announcement(origin, true, &offers),
        announcement(origin, false, &[]),
        goodbye(origin),
        request(origin, 5, domain),
        part(origin, (5, 0), PartEnd::More, domain, &hashes(&[1, 2])),
        part(origin, (5, 1), PartEnd::Last, domain, &[]),
        part(origin, (5, 0), PartEnd::Refused, domain, &[]),
    ]
}

#[test]
fn every_kind_is_read_as_it_was_written() {
    for sample in samples() {
        assert_eq!(again(&decode(&sample).unwrap()), sample);
    }
}

#[test]
fn an_update_says_who_learned_what() {
    let domain = domain("m", 32);
    let bytes = update(Origin::from_raw(4), 9, DomainRef::of(&domain), &hashes(&[7, 8]));
    let message = decode(&bytes).unwrap();
    assert_eq!(message.origin, Origin::from_raw(4));
    let Body::Update { sequence, domain: read, hashes: read_hashes } = message.body else {
        panic!("{message:?}");
    };
    assert_eq!((sequence, read.to_domain(), read_hashes.to_vec()), (9, domain, hashes(&[7, 8])));
}

/// Replicas of different builds read each other: the bytes never change within a version.
#[test]
fn the_bytes_of_version_1_are_fixed() {
    let domain = Domain { hash_scheme: "h".to_owned(), namespace_scheme: "n".to_owned(), ..domain("m", 16) };
    let bytes = update(Origin::from_raw(2), 3, DomainRef::of(&domain), &hashes(&[0x0405]));
    let expected = [
        &b"KVRH\x01\x01"[..],
        &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0],
        &[16, 0, 0, 0, 1, 0, b'm', 1, 0, b'h', 1, 0, b'n'],
        &[1, 0, 0, 0, 5, 4, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(bytes, expected.concat());
}

#[test]
fn an_update_costs_eight_bytes_a_hash_and_little_else() {
    let domain = Domain::of(&ModelName::new("qwen3-8b"), BlockSize::new(16).unwrap());
    let size = |count| update(Origin::from_raw(2), 3, DomainRef::of(&domain), &hashes(&vec![1; count])).len();
    assert_eq!((size(0), size(256)), (94, 94 + 8 * 256));
}

#[test]
fn a_message_that_ends_early_or_late_is_refused() {
    for sample in samples() {
        for end in 0..sample.len() {
            assert!(decode(&sample[..end]).is_err(), "{end} bytes of {sample:?}");
        }
        assert!(decode(&[&sample[..], &[0]].concat()).is_err(), "one more than {sample:?}");
    }
}

#[test]
fn another_version_is_told_apart_from_rubbish() {
    let mut bytes = samples()[0].to_vec();
    bytes[4] = 2;
    assert_eq!(decode(&bytes), Err(DecodeError::Version(2)));
    bytes[0] = b'X';
    assert!(matches!(decode(&bytes), Err(DecodeError::Malformed(_))));
    assert!(matches!(decode(&vec![0; LONGEST_MESSAGE + 1]), Err(DecodeError::Malformed("too long"))));
}

#[test]
fn a_number_of_hashes_that_is_not_there_is_refused() {
    let domain = domain("m", 16);
    let bytes = update(Origin::from_raw(2), 3, DomainRef::of(&domain), &hashes(&[1, 2]));
    for claimed in [0, 1, 3, u32::MAX] {
        let mut changed = bytes.to_vec();
        let place = changed.len() - 2 * 8 - 4;
        changed[place..place + 4].copy_from_slice(&claimed.to_le_bytes());
        assert!(decode(&changed).is_err(), "{claimed} of 2");
    }
}

#[test]
fn more_than_a_replica_sends_at_once_is_refused() {
    let domain = domain("m", 16);
    let most = vec![SequenceHash::from_raw(1); HASHES_PER_MESSAGE];
    let largest = update(Origin::from_raw(2), 3, DomainRef::of(&domain), &most);
    assert!(decode(&largest).is_ok() && largest.len() < 40 << 10, "{} bytes", largest.len());
    let more = vec![SequenceHash::from_raw(1); HASHES_PER_MESSAGE + 1];
    assert!(decode(&update(Origin::from_raw(2), 3, DomainRef::of(&domain), &more)).is_err());
}

#[test]
fn a_domain_that_no_message_can_hold_is_known_before() {
    let (longest, longer) =
        (domain(&"m".repeat(LONGEST_TEXT), 16), domain(&"m".repeat(LONGEST_TEXT + 1), 16));
    assert!(fits(&longest) && !fits(&longer));
    assert!(decode(&request(Origin::from_raw(2), 1, DomainRef::of(&longest))).is_ok());
    assert!(decode(&request(Origin::from_raw(2), 1, DomainRef::of(&longer))).is_err());
}

#[test]
fn as_many_offers_as_a_message_may_hold_fit_into_it() {
    let domain = domain(&"m".repeat(LONGEST_TEXT), 16);
    let domain =
        DomainRef { hash_scheme: &domain.model, namespace_scheme: &domain.model, ..DomainRef::of(&domain) };
    let offers = [Offer { domain, resident: Blocks::new(1) }; OFFERS_PER_MESSAGE];
    let bytes = announcement(Origin::from_raw(2), false, &offers);
    assert!(decode(&bytes).is_ok(), "{} bytes", bytes.len());
}

proptest! {
    #[test]
    fn whatever_is_read_is_written_the_same(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(message) = decode(&bytes) {
            prop_assert_eq!(&again(&message)[..], &bytes[..]);
        }
    }

    #[test]
    fn a_changed_byte_is_refused_or_means_something_else(
        which in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        change in 1u8..,
    ) {
        let samples = samples();
        let sample = which.get(&samples);
        let mut bytes = sample.to_vec();
        bytes[place.index(sample.len())] ^= change;
        if let Ok(message) = decode(&bytes) {
            prop_assert_ne!(&message, &decode(sample).unwrap());
            prop_assert_eq!(&again(&message)[..], &bytes[..]);
        }
    }
}
