//! Commands: the few control frames between messages.

use bytes::{BufMut, Bytes, BytesMut};

use crate::ZmtpError;
use crate::socket_type::SocketType;

/// A command that means something here. Unknown ones are `Other`: the protocol lets peers send new ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Ready { socket_type: Bytes },
    Ping { context: Bytes },
    Subscribe { prefix: Bytes },
    Cancel { prefix: Bytes },
    Error { reason: String },
    Other,
}

/// Time-to-live of a PING, which a receiver of ours need not watch: TCP keepalive does.
const PING_TTL_BYTES: usize = 2;
/// The protocol's limit of what a PONG must return.
const MAX_PING_CONTEXT: usize = 16;

// === impl Command ===

impl Command {
    pub(crate) fn parse(mut body: Bytes) -> Result<Self, ZmtpError> {
        let name = take_short(&mut body)?;
        Ok(match &name[..] {
            b"READY" => Self::Ready { socket_type: find_property(body, b"Socket-Type")? },
            b"PING" => Self::Ping { context: ping_context(body)? },
            b"SUBSCRIBE" => Self::Subscribe { prefix: body },
            b"CANCEL" => Self::Cancel { prefix: body },
            b"ERROR" => {
                let reason = take_short(&mut body)?;
                Self::Error { reason: String::from_utf8_lossy(&reason).into_owned() }
            }
            _ => Self::Other,
        })
    }
}

/// Body of the READY command of a socket without identity.
pub(crate) fn ready(socket_type: SocketType) -> Bytes {
    let mut body = BytesMut::with_capacity(64);
    put_short(&mut body, b"READY");
    put_property(&mut body, b"Socket-Type", socket_type.wire_name());
    put_property(&mut body, b"Identity", b"");
    body.freeze()
}

/// Body of the answer to a PING.
pub(crate) fn pong(context: &[u8]) -> Bytes {
    let mut body = BytesMut::with_capacity(5 + context.len());
    put_short(&mut body, b"PONG");
    body.extend_from_slice(context);
    body.freeze()
}

fn ping_context(mut body: Bytes) -> Result<Bytes, ZmtpError> {
    if body.len() < PING_TTL_BYTES || body.len() > PING_TTL_BYTES + MAX_PING_CONTEXT {
        return Err(ZmtpError::Protocol("a PING of a wrong length"));
    }
    Ok(body.split_off(PING_TTL_BYTES))
}

fn find_property(mut body: Bytes, wanted: &[u8]) -> Result<Bytes, ZmtpError> {
    while !body.is_empty() {
        let name = take_short(&mut body)?;
        let length = body.split_to_checked(4)?;
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        let value = body.split_to_checked(length as usize)?;
        if name.eq_ignore_ascii_case(wanted) {
            return Ok(value);
        }
    }
    Err(ZmtpError::Handshake("it does not say its socket type"))
}

fn take_short(body: &mut Bytes) -> Result<Bytes, ZmtpError> {
    let length = body.split_to_checked(1)?[0];
    body.split_to_checked(usize::from(length))
}

fn put_short(body: &mut BytesMut, text: &[u8]) {
    debug_assert!(text.len() <= usize::from(u8::MAX), "names of this crate are short");
    body.put_u8(text.len() as u8);
    body.extend_from_slice(text);
}

fn put_property(body: &mut BytesMut, name: &[u8], value: &[u8]) {
    put_short(body, name);
    body.put_u32(value.len() as u32);
    body.extend_from_slice(value);
}

trait SplitChecked {
    fn split_to_checked(&mut self, length: usize) -> Result<Bytes, ZmtpError>;
}

// === impl Bytes ===

impl SplitChecked for Bytes {
    fn split_to_checked(&mut self, length: usize) -> Result<Bytes, ZmtpError> {
        match length <= self.len() {
            true => Ok(self.split_to(length)),
            false => Err(ZmtpError::Protocol("a truncated command")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_the_ready_command_it_writes() {
        let command = Command::parse(ready(SocketType::Dealer)).unwrap();
        assert_eq!(command, Command::Ready { socket_type: Bytes::from_static(b"DEALER") });
    }

    #[test]
    fn reads_a_ping_and_answers_with_its_context() {
        let command = Command::parse(Bytes::from_static(b"\x04PING\x00\x0aabc")).unwrap();
        let Command::Ping { context } = command else { panic!("not a ping: {command:?}") };
        assert_eq!(&pong(&context)[..], b"\x04PONGabc");
    }

    #[test]
    fn a_command_of_a_later_protocol_is_no_error() {
        assert_eq!(Command::parse(Bytes::from_static(b"\x03NEWxyz")).unwrap(), Command::Other);
    }

    proptest! {
        #[test]
        fn arbitrary_bodies_never_panic(body in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Command::parse(Bytes::from(body));
        }
    }
}
