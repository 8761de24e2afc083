//! The frames around a payload, on the event socket and on the replay socket.

use bytes::Bytes;
use kvroute_zmtp::Message;

/// The number that ends a replay: -1, signed.
const END_OF_REPLAY: u64 = u64::MAX;

/// One event message of either socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EventMessage {
    /// `[topic, sequence, payload]`.
    Batch { sequence: u64, payload: Bytes },
    /// Nothing more to replay.
    End,
}

// === impl EventMessage ===

impl EventMessage {
    /// Reads the last three frames; a replay has an empty one before them. `None` for anything else.
    pub(super) fn read(message: &Message) -> Option<Self> {
        let [_topic, sequence, payload] = message.get(message.len().checked_sub(3)?..)? else { return None };
        let sequence = u64::from_be_bytes(sequence[..].try_into().ok()?);
        Some(match sequence {
            END_OF_REPLAY => Self::End,
            _ => Self::Batch { sequence, payload: payload.clone() },
        })
    }
}

/// What a replay socket is asked: an empty frame, then the first number wanted.
pub(super) fn replay_request(from: u64) -> Message {
    vec![Bytes::new(), Bytes::copy_from_slice(&from.to_be_bytes())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(hex: &[&str]) -> Message {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        hex.iter().map(|frame| frame.as_bytes().chunks(2).map(byte).collect::<Vec<_>>().into()).collect()
    }

    #[test]
    fn reads_both_sockets() {
        let batch = EventMessage::Batch { sequence: 52, payload: Bytes::from_static(&[0x93]) };
        assert_eq!(EventMessage::read(&frames(&["6b76", "0000000000000034", "93"])), Some(batch.clone()));
        assert_eq!(EventMessage::read(&frames(&["", "6b76", "0000000000000034", "93"])), Some(batch));
        assert_eq!(EventMessage::read(&frames(&["", "", "ffffffffffffffff", ""])), Some(EventMessage::End));
    }

    #[test]
    fn refuses_what_is_neither() {
        for message in [&["6b76"][..], &["6b76", "34", "93"], &["0000000000000034", "93"]] {
            assert_eq!(EventMessage::read(&frames(message)), None);
        }
    }
}
