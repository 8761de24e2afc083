//! Messages into bytes.

use bytes::{BufMut, Bytes, BytesMut};
use kvroute_core::SequenceHash;
use kvroute_history::Domain;

use super::{
    ANNOUNCEMENT, DomainRef, GOODBYE, LONGEST_TEXT, MAGIC, OFFERS_PER_MESSAGE, Offer, Origin, PART, PartEnd,
    REQUEST, UPDATE, VERSION,
};

/// Of a message without a domain.
const HEADER: usize = 32;

/// Of a domain with texts of a usual length.
const DOMAIN: usize = 128;

/// Whether a domain can stand in a message.
pub fn fits(domain: &Domain) -> bool {
    DomainRef::of(domain).texts().iter().all(|text| text.len() <= LONGEST_TEXT)
}

/// What the sender learned; at most [`HASHES_PER_MESSAGE`](super::HASHES_PER_MESSAGE) of it.
pub fn update(origin: Origin, sequence: u64, domain: DomainRef<'_>, hashes: &[SequenceHash]) -> Bytes {
    let mut message = start(UPDATE, origin, DOMAIN + 8 * hashes.len());
    message.put_u64_le(sequence);
    put_domain(&mut message, domain);
    put_hashes(&mut message, hashes);
    message.freeze()
}

/// That the sender is there; at most [`OFFERS_PER_MESSAGE`] offers are told.
pub fn announcement(origin: Origin, wants_answer: bool, offers: &[Offer<'_>]) -> Bytes {
    let offers = &offers[..offers.len().min(OFFERS_PER_MESSAGE)];
    let mut message = start(ANNOUNCEMENT, origin, DOMAIN * offers.len());
    message.put_u8(wants_answer.into());
    message.put_u8(offers.len() as u8);
    for offer in offers {
        put_domain(&mut message, offer.domain);
        message.put_u64_le(offer.resident.get());
    }
    message.freeze()
}

/// That the sender stops.
pub fn goodbye(origin: Origin) -> Bytes {
    start(GOODBYE, origin, 0).freeze()
}

/// That the sender wants all hashes of a domain.
pub fn request(origin: Origin, transfer: u64, domain: DomainRef<'_>) -> Bytes {
    let mut message = start(REQUEST, origin, DOMAIN);
    message.put_u64_le(transfer);
    put_domain(&mut message, domain);
    message.freeze()
}

/// Some of what was asked for; at most [`HASHES_PER_MESSAGE`](super::HASHES_PER_MESSAGE) of it.
pub fn part(
    origin: Origin,
    (transfer, index): (u64, u32),
    end: PartEnd,
    domain: DomainRef<'_>,
    hashes: &[SequenceHash],
) -> Bytes {
    let mut message = start(PART, origin, DOMAIN + 8 * hashes.len());
    message.put_u64_le(transfer);
    message.put_u32_le(index);
    message.put_u8(end.byte());
    put_domain(&mut message, domain);
    put_hashes(&mut message, hashes);
    message.freeze()
}

fn start(kind: u8, origin: Origin, more: usize) -> BytesMut {
    let mut message = BytesMut::with_capacity(HEADER + more);
    message.put_slice(MAGIC);
    message.put_u8(VERSION);
    message.put_u8(kind);
    message.put_u128_le(origin.0);
    message
}

fn put_domain(message: &mut BytesMut, domain: DomainRef<'_>) {
    message.put_u32_le(domain.block_size);
    for text in domain.texts() {
        message.put_u16_le(text.len() as u16);
        message.put_slice(text.as_bytes());
    }
}

fn put_hashes(message: &mut BytesMut, hashes: &[SequenceHash]) {
    message.put_u32_le(hashes.len() as u32);
    for hash in hashes {
        message.put_u64_le(hash.get());
    }
}
