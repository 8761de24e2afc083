//! What another replica says, as anybody may have sent it: it is refused, or it is byte for byte what its content is
//! written as.

#![no_main]

use bytes::Bytes;
use kvroute_cluster::message::{self, Body, HASHES_PER_MESSAGE, Message, OFFERS_PER_MESSAGE};
use libfuzzer_sys::fuzz_target;

/// Magic and version, which mutations of a short input seldom hit.
const HEADER: &[u8] = b"KVRH\x01";

fuzz_target!(|input: &[u8]| {
    check(input);
    check(&[HEADER, input].concat());
});

fn check(bytes: &[u8]) {
    match message::decode(bytes) {
        Ok(message) => assert_eq!(written(&message), bytes),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn written(message: &Message<'_>) -> Bytes {
    let origin = message.origin;
    match &message.body {
        Body::Update { sequence, domain, hashes } => {
            assert!(hashes.count() <= HASHES_PER_MESSAGE);
            message::update(origin, *sequence, *domain, &hashes.to_vec())
        }
        Body::Announcement { wants_answer, offers } => {
            assert!(offers.len() <= OFFERS_PER_MESSAGE);
            message::announcement(origin, *wants_answer, offers)
        }
        Body::Goodbye => message::goodbye(origin),
        Body::Request { transfer, domain } => message::request(origin, *transfer, *domain),
        Body::Part { transfer, index, end, domain, hashes } => {
            message::part(origin, (*transfer, *index), *end, *domain, &hashes.to_vec())
        }
    }
}
