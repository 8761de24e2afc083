//! Length-prefixed frames: a flag byte, one or eight bytes of length, the body.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::ZmtpError;

const MORE: u8 = 0b001;
const LONG: u8 = 0b010;
const COMMAND: u8 = 0b100;

/// No frame may be longer, nor a message. A store event of a million tokens has 5 MB; this refuses garbage, not
/// engines.
pub(crate) const MAX_FRAME_BYTES: usize = 32 << 20;

/// One frame as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) is_command: bool,
    /// More frames of the same message follow.
    pub(crate) more: bool,
    pub(crate) body: Bytes,
}

// === impl Frame ===

impl Frame {
    /// Takes the next whole frame out of a buffer; `None` while bytes are missing. Never allocates by the
    /// length that a peer claims.
    pub(crate) fn decode(buffer: &mut BytesMut) -> Result<Option<Self>, ZmtpError> {
        let Some(flags) = buffer.first().copied() else { return Ok(None) };
        if flags & !(MORE | LONG | COMMAND) != 0 {
            return Err(ZmtpError::Protocol("a frame with unknown flags"));
        }
        let header_bytes = if flags & LONG != 0 { 9 } else { 2 };
        if buffer.len() < header_bytes {
            return Ok(None);
        }
        let length = match flags & LONG != 0 {
            true => (&buffer[1..9]).get_u64(),
            false => u64::from(buffer[1]),
        };
        if length > MAX_FRAME_BYTES as u64 {
            return Err(ZmtpError::Protocol("a frame that is too long"));
        }
        if buffer.len() - header_bytes < length as usize {
            return Ok(None);
        }
        buffer.advance(header_bytes);
        let body = buffer.split_to(length as usize).freeze();
        Ok(Some(Self { is_command: flags & COMMAND != 0, more: flags & MORE != 0, body }))
    }
}

/// Appends one frame of a message.
pub(crate) fn encode_part(buffer: &mut BytesMut, body: &[u8], more: bool) {
    encode(buffer, body, if more { MORE } else { 0 });
}

/// Appends one command.
pub(crate) fn encode_command(buffer: &mut BytesMut, body: &[u8]) {
    encode(buffer, body, COMMAND);
}

fn encode(buffer: &mut BytesMut, body: &[u8], flags: u8) {
    match u8::try_from(body.len()) {
        Ok(length) => {
            buffer.put_u8(flags);
            buffer.put_u8(length);
        }
        Err(_) => {
            buffer.put_u8(flags | LONG);
            buffer.put_u64(body.len() as u64);
        }
    }
    buffer.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode_all(buffer: &mut BytesMut) -> Vec<Frame> {
        std::iter::from_fn(|| Frame::decode(buffer).unwrap()).collect()
    }

    #[test]
    fn a_lying_length_is_refused_before_anything_is_allocated() {
        let mut buffer = BytesMut::from(&[LONG, 0, 0, 32, 0, 0, 0, 0, 0, 1][..]);
        assert!(matches!(Frame::decode(&mut buffer), Err(ZmtpError::Protocol(_))));
    }

    #[test]
    fn unknown_flags_are_refused() {
        assert!(Frame::decode(&mut BytesMut::from(&b"HTTP/1.1"[..])).is_err());
    }

    proptest! {
        #[test]
        fn any_cut_of_the_stream_gives_the_same_frames(
            bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..600), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut whole = BytesMut::new();
            for body in &bodies {
                encode_part(&mut whole, body, true);
            }
            let mut first = BytesMut::from(&whole[..cut.index(whole.len())]);
            let rest = whole.split_off(first.len());

            let mut frames = decode_all(&mut first);
            first.extend_from_slice(&rest);
            frames.extend(decode_all(&mut first));

            let decoded: Vec<_> = frames.into_iter().map(|frame| frame.body.to_vec()).collect();
            prop_assert_eq!(decoded, bodies);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = Frame::decode(&mut buffer) {}
        }
    }
}
