//! Fields out of bytes that anybody may have sent.

use kvroute_core::Blocks;

use super::{
    DecodeError, DomainRef, HASHES_PER_MESSAGE, Hashes, LONGEST_TEXT, OFFERS_PER_MESSAGE, Offer, PartEnd,
};

/// What is left of a message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

type Read<T> = Result<T, DecodeError>;

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Malformed("too short"))?;
        self.rest = rest;
        Ok(*array)
    }

    pub(super) fn u32(&mut self) -> Read<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Read<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn flag(&mut self) -> Read<bool> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(DecodeError::Malformed("a flag that is neither 0 nor 1")),
        }
    }

    pub(super) fn part_end(&mut self) -> Read<PartEnd> {
        let [byte] = self.array()?;
        PartEnd::of(byte).ok_or(DecodeError::Malformed("unknown end of a part"))
    }

    pub(super) fn domain(&mut self) -> Read<DomainRef<'a>> {
        let block_size = self.u32()?;
        if block_size == 0 {
            return Err(DecodeError::Malformed("a block size of 0"));
        }
        let (model, hash_scheme, namespace_scheme) = (self.text()?, self.text()?, self.text()?);
        Ok(DomainRef { model, block_size, hash_scheme, namespace_scheme })
    }

    pub(super) fn hashes(&mut self) -> Read<Hashes<'a>> {
        let count = self.u32()? as usize;
        let (bytes, rest) = self.rest.as_chunks();
        if count != bytes.len() || !rest.is_empty() || count > HASHES_PER_MESSAGE {
            return Err(DecodeError::Malformed("another number of hashes than it says"));
        }
        self.rest = rest;
        Ok(Hashes { bytes })
    }

    pub(super) fn offers(&mut self) -> Read<Vec<Offer<'a>>> {
        let [count] = self.array()?;
        if usize::from(count) > OFFERS_PER_MESSAGE {
            return Err(DecodeError::Malformed("too many offers"));
        }
        (0..count).map(|_| self.offer()).collect()
    }

    fn offer(&mut self) -> Read<Offer<'a>> {
        let domain = self.domain()?;
        Ok(Offer { domain, resident: Blocks::new(self.u64()?) })
    }

    fn text(&mut self) -> Read<&'a str> {
        let length = usize::from(u16::from_le_bytes(self.array()?));
        if length > LONGEST_TEXT {
            return Err(DecodeError::Malformed("too long a text"));
        }
        let (text, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Malformed("too short"))?;
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| DecodeError::Malformed("a text that is not UTF-8"))
    }

    /// Nothing may be left.
    pub(super) fn end(&self) -> Read<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Malformed("more behind its end")) }
    }
}
