//! A cursor over MessagePack that can step over any value without building it.
//!
//! Stepping over is what makes the decoder tolerant: an unknown field, an unknown event and a broken event are
//! passed by their length. It counts instead of recursing, so nesting costs no stack.

use rmp::Marker;
use rmp::decode;

/// The bytes are no MessagePack, end too early, or hold a value of another type than was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
}

// === impl Cursor ===

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes left: no collection can have more elements.
    pub(super) const fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// The type of the next value.
    pub(super) fn peek(&self) -> Result<Marker, Malformed> {
        self.bytes.first().map(|byte| Marker::from_u8(*byte)).ok_or(Malformed)
    }

    /// Steps over a nil; false when the next value is another one.
    pub(super) fn take_nil(&mut self) -> Result<bool, Malformed> {
        if self.peek()? != Marker::Null {
            return Ok(false);
        }
        self.take(1)?;
        Ok(true)
    }

    pub(super) fn array_len(&mut self) -> Result<usize, Malformed> {
        let len = match self.marker()? {
            Marker::FixArray(len) => usize::from(len),
            Marker::Array16 => self.length(2)?,
            Marker::Array32 => self.length(4)?,
            _ => return Err(Malformed),
        };
        self.plausible(len as u64)
    }

    pub(super) fn map_len(&mut self) -> Result<usize, Malformed> {
        let len = match self.marker()? {
            Marker::FixMap(len) => usize::from(len),
            Marker::Map16 => self.length(2)?,
            Marker::Map32 => self.length(4)?,
            _ => return Err(Malformed),
        };
        self.plausible(len as u64)
    }

    pub(super) fn str(&mut self) -> Result<&'a [u8], Malformed> {
        let len = match self.marker()? {
            Marker::FixStr(len) => usize::from(len),
            Marker::Str8 => self.length(1)?,
            Marker::Str16 => self.length(2)?,
            Marker::Str32 => self.length(4)?,
            _ => return Err(Malformed),
        };
        self.take(len)
    }

    pub(super) fn bin(&mut self) -> Result<&'a [u8], Malformed> {
        let len = match self.marker()? {
            Marker::Bin8 => self.length(1)?,
            Marker::Bin16 => self.length(2)?,
            Marker::Bin32 => self.length(4)?,
            _ => return Err(Malformed),
        };
        self.take(len)
    }

    /// The hot one: a prompt of a million tokens has a million of them, nearly all of the first three forms.
    #[inline]
    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        let (value, rest) = match self.bytes {
            [value @ 0..=0x7f, rest @ ..] => (u32::from(*value), rest),
            [0xcd, a, b, rest @ ..] => (u32::from(u16::from_be_bytes([*a, *b])), rest),
            [0xce, a, b, c, d, rest @ ..] => (u32::from_be_bytes([*a, *b, *c, *d]), rest),
            [0xcc, value, rest @ ..] => (u32::from(*value), rest),
            _ => return decode::read_int(&mut self.bytes).map_err(|_| Malformed),
        };
        self.bytes = rest;
        Ok(value)
    }

    /// Any integer; a negative one keeps its bits.
    pub(super) fn int_bits(&mut self) -> Result<u64, Malformed> {
        if let [0xcf | 0xd3, a, b, c, d, e, f, g, h, rest @ ..] = self.bytes {
            self.bytes = rest;
            return Ok(u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]));
        }
        match self.peek()? {
            Marker::FixNeg(_) | Marker::I8 | Marker::I16 | Marker::I32 => {
                let value: i64 = decode::read_int(&mut self.bytes).map_err(|_| Malformed)?;
                Ok(value.cast_unsigned())
            }
            _ => decode::read_int(&mut self.bytes).map_err(|_| Malformed),
        }
    }

    /// A time in seconds, as a float or as an integer.
    pub(super) fn seconds(&mut self) -> Result<f64, Malformed> {
        match self.peek()? {
            Marker::F64 => decode::read_f64(&mut self.bytes).map_err(|_| Malformed),
            Marker::F32 => decode::read_f32(&mut self.bytes).map(f64::from).map_err(|_| Malformed),
            _ => self.int_bits().map(|seconds| seconds as f64),
        }
    }

    /// Steps over one value, whatever it holds.
    pub(super) fn skip(&mut self) -> Result<(), Malformed> {
        let mut values_left = 1_u64;
        while values_left > 0 {
            let values_inside = self.skip_head()?;
            values_left = self.plausible(values_left - 1 + values_inside)? as u64;
        }
        Ok(())
    }

    /// Steps over one value and gives its bytes.
    pub(super) fn skipped(&mut self) -> Result<&'a [u8], Malformed> {
        let before = self.bytes;
        self.skip()?;
        Ok(&before[..before.len() - self.bytes.len()])
    }

    /// Whether the next value is a text.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.peek(), Ok(Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32))
    }

    /// Steps over a scalar, or over the head of a collection, and returns how many values follow in it.
    fn skip_head(&mut self) -> Result<u64, Malformed> {
        let (scalar_bytes, values) = match self.marker()? {
            Marker::Null | Marker::True | Marker::False | Marker::FixPos(_) | Marker::FixNeg(_) => (0, 0),
            Marker::U8 | Marker::I8 => (1, 0),
            Marker::U16 | Marker::I16 | Marker::FixExt1 => (2, 0),
            Marker::FixExt2 => (3, 0),
            Marker::U32 | Marker::I32 | Marker::F32 => (4, 0),
            Marker::FixExt4 => (5, 0),
            Marker::U64 | Marker::I64 | Marker::F64 => (8, 0),
            Marker::FixExt8 => (9, 0),
            Marker::FixExt16 => (17, 0),
            Marker::FixStr(len) => (usize::from(len), 0),
            Marker::Str8 | Marker::Bin8 => (self.length(1)?, 0),
            Marker::Str16 | Marker::Bin16 => (self.length(2)?, 0),
            Marker::Str32 | Marker::Bin32 => (self.length(4)?, 0),
            Marker::Ext8 => (self.length(1)? + 1, 0),
            Marker::Ext16 => (self.length(2)? + 1, 0),
            Marker::Ext32 => (self.length(4)? + 1, 0),
            Marker::FixArray(len) => (0, u64::from(len)),
            Marker::Array16 => (0, self.length(2)? as u64),
            Marker::Array32 => (0, self.length(4)? as u64),
            Marker::FixMap(len) => (0, 2 * u64::from(len)),
            Marker::Map16 => (0, 2 * self.length(2)? as u64),
            Marker::Map32 => (0, 2 * self.length(4)? as u64),
            Marker::Reserved => return Err(Malformed),
        };
        self.take(scalar_bytes)?;
        Ok(values)
    }

    fn marker(&mut self) -> Result<Marker, Malformed> {
        let marker = self.peek()?;
        self.bytes = &self.bytes[1..];
        Ok(marker)
    }

    fn length(&mut self, width: usize) -> Result<usize, Malformed> {
        let bytes = self.take(width)?;
        Ok(bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(Malformed)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// A value takes a byte at least, so a claim above the remaining bytes is a lie.
    fn plausible(&self, values: u64) -> Result<usize, Malformed> {
        usize::try_from(values).ok().filter(|count| *count <= self.bytes.len()).ok_or(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn steps_over_every_type_by_its_length() {
        let values: &[&[u8]] = &[
            &[0xc0],
            &[0xc3],
            &[0x7f],
            &[0xff],
            &[0xcc, 1],
            &[0xd1, 1, 2],
            &[0xce, 1, 2, 3, 4],
            &[0xcb, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0xa2, b'a', b'b'],
            &[0xd9, 2, b'a', b'b'],
            &[0xc5, 0, 1, 9],
            &[0xd4, 1, 2],
            &[0xd8, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
            &[0xc7, 2, 5, 1, 2],
            &[0x92, 0x91, 1, 0x81, 1, 0xc0],
            &[0xdc, 0, 2, 1, 2],
            &[0xdf, 0, 0, 0, 1, 0xa1, b'k', 0x90],
        ];
        for value in values {
            let with_tail = [value, &[0x2a][..]].concat();
            let mut cursor = Cursor::new(&with_tail);
            assert_eq!(cursor.skip(), Ok(()), "{value:x?}");
            assert_eq!(cursor.u32(), Ok(42), "{value:x?}");
            for cut in 0..value.len() {
                assert_eq!(Cursor::new(&value[..cut]).skip(), Err(Malformed), "{value:x?} cut at {cut}");
            }
        }
    }

    #[test]
    fn deep_nesting_costs_no_stack() {
        let deep = [vec![0x91; 1 << 20], vec![0]].concat();
        let mut cursor = Cursor::new(&deep);
        assert_eq!(cursor.skip(), Ok(()));
        assert_eq!(cursor.remaining(), 0);
    }

    #[test]
    fn a_collection_that_claims_more_than_there_is_is_refused_at_once() {
        assert_eq!(Cursor::new(&[0xdd, 0xff, 0xff, 0xff, 0xff, 0]).array_len(), Err(Malformed));
        assert_eq!(Cursor::new(&[0xdf, 0xff, 0xff, 0xff, 0xff, 0]).skip(), Err(Malformed));
    }

    #[test]
    fn negative_integers_keep_their_bits() {
        assert_eq!(
            Cursor::new(&[0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]).int_bits(),
            Ok(u64::MAX - 1)
        );
        assert_eq!(
            Cursor::new(&[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]).int_bits(),
            Ok(u64::MAX - 1)
        );
        assert_eq!(Cursor::new(&[0xff]).int_bits(), Ok(u64::MAX));
    }

    proptest! {
        #[test]
        fn integers_are_read_as_they_were_written(value: i64, unsigned: u64, small: u32) {
            let mut bytes = Vec::new();
            rmp::encode::write_sint(&mut bytes, value).unwrap();
            rmp::encode::write_uint(&mut bytes, unsigned).unwrap();
            rmp::encode::write_uint(&mut bytes, u64::from(small)).unwrap();
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(cursor.int_bits(), Ok(value.cast_unsigned()));
            prop_assert_eq!(cursor.int_bits(), Ok(unsigned));
            prop_assert_eq!(cursor.u32(), Ok(small));
            prop_assert_eq!(cursor.remaining(), 0);
        }
    }
}
