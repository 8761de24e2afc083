//! What replicas say to each other, as bytes.
//!
//! A message starts with four fixed bytes, a version, a kind and its sender. Numbers are little-endian, texts and lists have
//! their length in front, and nothing may follow the last field. Reading copies no hash, reserves nothing by a length that
//! the message only claims, and refuses whatever writing would not have made: two messages never mean the same.

mod reader;
mod writer;

#[cfg(test)]
mod tests;

use std::fmt;

use kvroute_core::{Blocks, SequenceHash};
use kvroute_history::Domain;

use reader::Reader;
pub use writer::{announcement, fits, goodbye, part, request, update};

/// Hashes in one message at most: 32 KiB, so that a message stays far below the limit of a server as it comes (1 MiB) and
/// the next one never waits long behind it.
pub const HASHES_PER_MESSAGE: usize = 4096;

/// Offers in one announcement at most.
pub const OFFERS_PER_MESSAGE: usize = 64;

/// Longest text of a domain, in bytes.
const LONGEST_TEXT: usize = 1024;

/// No replica sends more in one message.
const LONGEST_MESSAGE: usize = 256 << 10;

const MAGIC: &[u8; 4] = b"KVRH";
const VERSION: u8 = 1;

const UPDATE: u8 = 1;
const ANNOUNCEMENT: u8 = 2;
const GOODBYE: u8 = 3;
const REQUEST: u8 = 4;
const PART: u8 = 5;

/// A replica's process: drawn at its start, never the same after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(u128);

/// One message as it was read; it borrows from the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Who sent it.
    pub origin: Origin,
    /// What it says.
    pub body: Body<'a>,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// The sender learned these hashes.
    Update {
        /// Counts the sender's updates, so that a lost one shows.
        sequence: u64,
        /// What the hashes belong to.
        domain: DomainRef<'a>,
        /// The hashes, in the order of the prompt.
        hashes: Hashes<'a>,
    },
    /// The sender is there, and knows this much.
    Announcement {
        /// Whether everybody is asked for an announcement now.
        wants_answer: bool,
        /// What it could give.
        offers: Vec<Offer<'a>>,
    },
    /// The sender stops.
    Goodbye,
    /// The sender wants all hashes of a domain.
    Request {
        /// Stands in every part of the answer.
        transfer: u64,
        /// Which hashes.
        domain: DomainRef<'a>,
    },
    /// Some of the hashes that were asked for.
    Part {
        /// As in the request.
        transfer: u64,
        /// Counts the parts, from 0.
        index: u32,
        /// Whether more parts follow.
        end: PartEnd,
        /// What the hashes belong to.
        domain: DomainRef<'a>,
        /// The hashes, the oldest first.
        hashes: Hashes<'a>,
    },
}

/// What stands behind a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartEnd {
    /// Another part.
    More,
    /// Nothing: it was the last one.
    Last,
    /// Nothing: the replica has no such history, or serves too many others.
    Refused,
}

/// How much a replica knows of one domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer<'a> {
    /// Which hashes.
    pub domain: DomainRef<'a>,
    /// How many.
    pub resident: Blocks,
}

/// A [`Domain`] inside a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainRef<'a> {
    model: &'a str,
    block_size: u32,
    hash_scheme: &'a str,
    namespace_scheme: &'a str,
}

/// Hashes inside a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hashes<'a> {
    bytes: &'a [[u8; 8]],
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A replica of another version sent it, or a message of another program stands on the subject.
    #[error("version {0} is not spoken here")]
    Version(u8),
    /// No replica sends such a message.
    #[error("no message of a replica: {0}")]
    Malformed(&'static str),
}

/// Reads one message.
///
/// # Errors
///
/// The bytes are of another version, or nothing that [`update`] and its siblings write.
pub fn decode(bytes: &[u8]) -> Result<Message<'_>, DecodeError> {
    if bytes.len() > LONGEST_MESSAGE {
        return Err(DecodeError::Malformed("too long"));
    }
    let mut reader = Reader::new(bytes);
    if reader.array()? != *MAGIC {
        return Err(DecodeError::Malformed("other first bytes"));
    }
    let [version] = reader.array()?;
    if version != VERSION {
        return Err(DecodeError::Version(version));
    }
    let [kind] = reader.array()?;
    let origin = Origin(u128::from_le_bytes(reader.array()?));
    let body = body(kind, &mut reader)?;
    reader.end()?;
    Ok(Message { origin, body })
}

fn body<'a>(kind: u8, reader: &mut Reader<'a>) -> Result<Body<'a>, DecodeError> {
    Ok(match kind {
        UPDATE => {
            Body::Update { sequence: reader.u64()?, domain: reader.domain()?, hashes: reader.hashes()? }
        }
        ANNOUNCEMENT => Body::Announcement { wants_answer: reader.flag()?, offers: reader.offers()? },
        GOODBYE => Body::Goodbye,
        REQUEST => Body::Request { transfer: reader.u64()?, domain: reader.domain()? },
        PART => Body::Part {
            transfer: reader.u64()?,
            index: reader.u32()?,
            end: reader.part_end()?,
            domain: reader.domain()?,
            hashes: reader.hashes()?,
        },
        _ => return Err(DecodeError::Malformed("unknown kind")),
    })
}

// === impl Origin ===

impl Origin {
    /// A new process's own.
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// One with a given value, for tests.
    pub const fn from_raw(raw: u128) -> Self {
        Self(raw)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

// === impl PartEnd ===

impl PartEnd {
    const ALL: [Self; 3] = [Self::More, Self::Last, Self::Refused];

    const fn byte(self) -> u8 {
        self as u8
    }

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

// === impl DomainRef ===

impl<'a> DomainRef<'a> {
    /// The same, borrowed from a domain.
    pub fn of(domain: &'a Domain) -> Self {
        let Domain { model, block_size, hash_scheme, namespace_scheme } = domain;
        Self { model, block_size: *block_size, hash_scheme, namespace_scheme }
    }

    /// The same, on its own.
    pub fn to_domain(self) -> Domain {
        Domain {
            model: self.model.to_owned(),
            block_size: self.block_size,
            hash_scheme: self.hash_scheme.to_owned(),
            namespace_scheme: self.namespace_scheme.to_owned(),
        }
    }

    fn texts(self) -> [&'a str; 3] {
        [self.model, self.hash_scheme, self.namespace_scheme]
    }
}

// === impl Hashes ===

impl Hashes<'_> {
    /// How many there are.
    pub const fn count(self) -> usize {
        self.bytes.len()
    }

    /// Copies them out.
    pub fn to_vec(self) -> Vec<SequenceHash> {
        self.bytes.iter().map(|&hash| SequenceHash::from_raw(u64::from_le_bytes(hash))).collect()
    }
}

impl fmt::Debug for Hashes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hashes", self.count())
    }
}
