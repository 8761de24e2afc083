//! Replay of missed batches on a ROUTER socket.
//!
//! A request is `["", first sequence]`; the answers are `["", topic, sequence, payload]` for every batch from there on
//! that is still remembered, then `["", "", -1, ""]`. A request without the empty frame gets no answer, as in vLLM.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kvroute_zmtp::{Endpoint, Message, PeerId, Router, ZmtpError};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::TOPIC;
use crate::faults::FaultBoard;

/// Batches that are remembered, as vLLM sets it.
pub(super) const REMEMBERED_BATCHES: usize = 10_000;
/// How long a peer that stops reading its answers may hold up the others.
const PATIENCE: Duration = Duration::from_secs(5);
/// The sequence that ends an answer.
const END: u64 = u64::MAX;

/// The latest batches and their numbers.
#[derive(Debug, Default)]
pub(super) struct ReplayBuffer {
    next: u64,
    payloads: VecDeque<Bytes>,
}

/// The replay socket.
#[derive(Debug)]
pub(super) struct ReplayServer {
    router: Router,
    buffer: Arc<Mutex<ReplayBuffer>>,
    faults: Arc<FaultBoard>,
}

/// The frames of one batch as they are published.
pub(super) fn message(sequence: u64, payload: Bytes) -> Message {
    vec![Bytes::from_static(TOPIC.as_bytes()), number(sequence), payload]
}

fn number(sequence: u64) -> Bytes {
    Bytes::copy_from_slice(&sequence.to_be_bytes())
}

// === impl ReplayBuffer ===

impl ReplayBuffer {
    /// Remembers a batch and gives it its number; the first one is 0.
    pub(super) fn push(&mut self, payload: Bytes) -> u64 {
        if self.payloads.len() == REMEMBERED_BATCHES {
            self.payloads.pop_front();
        }
        self.payloads.push_back(payload);
        self.next += 1;
        self.next - 1
    }

    /// The remembered batches from a number on.
    fn since(&self, first: u64) -> Vec<(u64, Bytes)> {
        let oldest = self.next - self.payloads.len() as u64;
        let skipped = first.saturating_sub(oldest).min(self.payloads.len() as u64);
        (oldest + skipped..).zip(self.payloads.iter().skip(skipped as usize).cloned()).collect()
    }
}

// === impl ReplayServer ===

impl ReplayServer {
    pub(super) async fn bind(
        address: &Endpoint,
        buffer: Arc<Mutex<ReplayBuffer>>,
        faults: Arc<FaultBoard>,
    ) -> Result<Self, ZmtpError> {
        Ok(Self { router: Router::bind(address).await?, buffer, faults })
    }

    /// The real address.
    pub(super) fn address(&self) -> Endpoint {
        Endpoint::from(self.router.local_addr())
    }

    /// Answers until it is told to stop.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        while let Some((peer, request)) = stop.run_until_cancelled(self.router.receive()).await {
            let Some(first) = first_sequence(&request) else {
                tracing::warn!(
                    frames = request.len(),
                    "replay request ignored: send an empty frame and 8 bytes"
                );
                continue;
            };
            if self.faults.ignores_replay() {
                continue;
            }
            let answer = stop.run_until_cancelled(tokio::time::timeout(PATIENCE, self.answer(peer, first)));
            if answer.await.is_some_and(|in_time| in_time.is_err()) {
                tracing::warn!("replay given up: the peer does not read");
            }
        }
        self.router.close().await;
    }

    async fn answer(&self, peer: PeerId, first: u64) {
        let batches = self.buffer.lock().since(first);
        for (sequence, payload) in batches {
            let mut frames = vec![Bytes::new()];
            frames.extend(message(sequence, payload));
            if !self.router.send(peer, frames).await {
                return;
            }
        }
        self.router.send(peer, vec![Bytes::new(), Bytes::new(), number(END), Bytes::new()]).await;
    }
}

fn first_sequence(request: &Message) -> Option<u64> {
    let [delimiter, sequence] = request.as_slice() else { return None };
    let sequence = <[u8; 8]>::try_from(&sequence[..]).ok()?;
    delimiter.is_empty().then(|| u64::from_be_bytes(sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(buffer: &ReplayBuffer, first: u64) -> Vec<u64> {
        buffer.since(first).into_iter().map(|(sequence, _)| sequence).collect()
    }

    #[test]
    fn remembers_the_latest_batches_under_their_numbers() {
        let mut buffer = ReplayBuffer::default();
        assert_eq!(numbers(&buffer, 0), [0u64; 0]);
        for number in 0..REMEMBERED_BATCHES as u64 + 3 {
            let pushed = buffer.push(Bytes::copy_from_slice(&number.to_be_bytes()));
            assert_eq!(pushed, number);
        }
        let all = buffer.since(0);
        assert_eq!((all.len(), all[0].0), (REMEMBERED_BATCHES, 3));
        assert!(all.iter().all(|(sequence, payload)| payload[..] == sequence.to_be_bytes()));
        assert_eq!(numbers(&buffer, 10_001), [10_001, 10_002]);
        assert_eq!(numbers(&buffer, 10_003), [0u64; 0]);
        assert_eq!(numbers(&buffer, u64::MAX), [0u64; 0]);
    }

    #[test]
    fn requests_need_the_delimiter_and_eight_bytes() {
        let frames = |frames: &[&'static [u8]]| frames.iter().copied().map(Bytes::from_static).collect();
        assert_eq!(first_sequence(&frames(&[b"", b"\0\0\0\0\0\0\x01\x02"])), Some(258));
        assert_eq!(first_sequence(&frames(&[b"\0\0\0\0\0\0\x01\x02"])), None);
        assert_eq!(first_sequence(&frames(&[b"", b"\x01"])), None);
        assert_eq!(first_sequence(&frames(&[b"x", b"\0\0\0\0\0\0\x01\x02"])), None);
    }
}
