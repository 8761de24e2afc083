//! A recorded event stream on a wire that may lose messages, with the replay socket that the engine had, read by the
//! router's own state machine into its own index.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kvroute_core::{EventBatch, RankSlot, RemovalCause};
use kvroute_engine::events::{Source, SourceAction, SourceStatus};
use kvroute_index::{Applied, ReportedIndex};
use serde_json::Value;

pub(crate) const RANK: RankSlot = RankSlot::new(0);

/// The stream, and what the router made of it.
pub(crate) struct Stream {
    source: Source,
    is_connected: bool,
    /// Everything published so far, as the replay socket keeps it.
    log: Vec<(u64, Bytes)>,
    loss: f64,
    random: u64,
    /// Messages lost on the wire.
    pub(crate) lost: usize,
    /// Clears that the engine did not announce.
    pub(crate) clears: usize,
    pub(crate) index: ReportedIndex,
    pub(crate) applied: Applied,
}

// === impl Stream ===

impl Stream {
    pub(crate) fn whole() -> Self {
        Self::lossy(0.0, 1)
    }

    /// Loses this share of messages, others for each seed.
    pub(crate) fn lossy(loss: f64, seed: u64) -> Self {
        Self {
            source: Source::new(true, Duration::ZERO),
            is_connected: false,
            log: Vec::new(),
            loss,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            lost: 0,
            clears: 0,
            index: ReportedIndex::default(),
            applied: Applied::default(),
        }
    }

    pub(crate) fn connect(&mut self) {
        self.is_connected = true;
        self.run(Source::connected);
    }

    /// The engine publishes a recorded message.
    pub(crate) fn publish(&mut self, entry: &Value) {
        let frame = |index: usize| STANDARD.decode(entry["frames_b64"][index].as_str().unwrap()).unwrap();
        let sequence = u64::from_be_bytes(frame(1).try_into().unwrap());
        let payload = Bytes::from(frame(2));
        self.log.push((sequence, payload.clone()));
        if !self.is_connected {
            return;
        }
        if self.is_lost() {
            self.lost += 1;
        } else {
            self.run(|source, actions| source.live(sequence, payload, actions));
        }
    }

    /// Whether everything published so far is applied.
    pub(crate) fn is_current(&self) -> bool {
        self.source.last_sequence() == self.log.last().map(|(sequence, _)| *sequence)
    }

    pub(crate) fn status(&self) -> SourceStatus {
        self.source.status(Duration::ZERO)
    }

    fn run(&mut self, input: impl FnOnce(&mut Source, &mut Vec<SourceAction>)) {
        let mut actions = Vec::new();
        input(&mut self.source, &mut actions);
        for action in actions {
            match action {
                SourceAction::Clear => {
                    self.clears += 1;
                    let _blocks = self.index.clear(RANK, RemovalCause::Cleared, &mut |_| {});
                }
                SourceAction::Apply { batch, .. } => self.apply(&batch),
                SourceAction::RequestReplay { from } => self.replay(from),
                SourceAction::Count(_) => {}
            }
        }
    }

    /// Everything that the engine keeps from a number on, then the end.
    fn replay(&mut self, from: u64) {
        let kept: Vec<_> = self.log.iter().filter(|(sequence, _)| *sequence >= from).cloned().collect();
        for (sequence, payload) in kept {
            self.run(|source, actions| source.replayed(sequence, &payload, actions));
        }
        self.run(Source::replay_ended);
    }

    fn apply(&mut self, batch: &EventBatch) {
        assert_eq!((batch.undecodable, batch.ignored), (0, 0), "{batch:?}");
        for event in &batch.events {
            self.applied += self.index.apply(RANK, event, &mut |_| {});
        }
    }

    fn is_lost(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) as f64 / (1_u64 << 53) as f64) < self.loss
    }
}
