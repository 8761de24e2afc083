//! Blocks of two sizes in one stream.

use kvroute_core::BlockSize;

use super::*;
use crate::events::BlockSizeClaim;

/// A batch that stores two blocks of this many tokens.
fn pages(mark: u64, size: u32) -> Bytes {
    storing(&[2 * mark, 2 * mark + 1], size)
}

/// A source with or without a replay socket, and what it brought into the index.
struct Stream {
    source: Source,
    next: u64,
    /// Sizes of the blocks of each store since the last clear.
    taken: Vec<u32>,
    rejected: u64,
    asked: Vec<u64>,
}

impl Stream {
    fn new(claim: BlockSizeClaim, has_replay: bool) -> Self {
        let mut source = Source::new(has_replay, START).expecting(claim);
        source.connected(&mut Vec::new());
        source.replay_ended(&mut Vec::new());
        Self { source, next: 0, taken: Vec::new(), rejected: 0, asked: Vec::new() }
    }

    fn run(&mut self, input: impl FnOnce(&mut Source, &mut Vec<SourceAction>)) {
        let mut actions = Vec::new();
        input(&mut self.source, &mut actions);
        for action in actions {
            match action {
                SourceAction::Clear => self.taken.clear(),
                SourceAction::Apply { batch, .. } => self.apply(&batch),
                SourceAction::RequestReplay { from } => self.asked.push(from),
                SourceAction::Count(_) => {}
            }
        }
    }

    fn apply(&mut self, batch: &EventBatch) {
        self.rejected += batch.rejected;
        for event in &batch.events {
            match event {
                KvEvent::Cleared => self.taken.clear(),
                KvEvent::Stored(stored) => self.taken.push(stored.block_size.get()),
                _ => {}
            }
        }
    }

    fn live(&mut self, payload: Bytes) {
        let sequence = self.next;
        self.next += 1;
        self.run(|source, actions| source.live(sequence, payload, actions));
    }

    fn stores(&mut self, count: u64, size: u32) {
        (0..count).for_each(|_| self.live(pages(self.next, size)));
    }

    fn status(&self) -> SourceStatus {
        self.source.status(START)
    }
}

fn size(tokens: u32) -> BlockSize {
    BlockSize::new(tokens).unwrap()
}

fn refused(expected: u32, seen: u32) -> SourceReason {
    SourceReason::BlockSize { expected: size(expected), seen: size(seen) }
}

#[test]
fn one_store_of_another_size_is_refused_and_named_and_takes_nothing_away() {
    let mut stream = Stream::new(BlockSizeClaim::Unknown, false);
    stream.stores(3, 16);
    stream.stores(1, 32);
    assert_eq!((&stream.taken[..], stream.rejected), (&[16, 16, 16][..], 1));
    assert_eq!(stream.status(), SourceStatus::degraded(refused(16, 32)));
    let text = stream.status().reason.unwrap().to_string();
    assert!(text.contains("16") && text.contains("32") && text.contains("pool.block_size"), "{text}");
    stream.stores(8, 16);
    assert_eq!((stream.taken.len(), stream.status()), (11, SourceStatus::EXACT));
}

#[test]
fn an_engine_whose_blocks_have_another_size_than_it_told_is_understood_and_asked_for_what_was_refused() {
    for has_replay in [false, true] {
        let mut stream = Stream::new(BlockSizeClaim::Told(size(16)), has_replay);
        stream.stores(1, 32);
        assert_eq!(stream.status(), SourceStatus::blind(refused(16, 32)));
        stream.stores(9, 32);
        assert_eq!((&stream.taken[..], stream.rejected), (&[32; 3][..], 7));
        let overruled = SourceReason::BlockSizeOverruled { before: size(16), now: size(32) };
        assert_eq!(stream.status(), SourceStatus::degraded(overruled));
        assert!(overruled.is_loss());

        for seconds in [100, 110] {
            stream.run(|source, actions| source.tick(Duration::from_secs(seconds), actions));
        }
        assert_eq!(stream.asked, if has_replay { vec![0] } else { vec![] });
        if has_replay {
            for sequence in 0..10 {
                let payload = pages(sequence, 32);
                stream.run(|source, actions| source.replayed(sequence, &payload, actions));
            }
            stream.run(Source::replay_ended);
            assert_eq!((&stream.taken[..], stream.status()), (&[32; 10][..], SourceStatus::EXACT));
        }
    }
}

#[test]
fn a_required_size_that_the_events_contradict_is_blind_for_as_long_as_they_do() {
    let mut stream = Stream::new(BlockSizeClaim::Required(size(16)), true);
    stream.stores(100, 32);
    stream.live(payload(1000, true));
    stream.stores(100, 32);
    assert_eq!((&stream.taken[..], stream.rejected), (&[][..], 200));
    assert_eq!(stream.status(), SourceStatus::blind(refused(16, 32)));
}

#[test]
fn an_open_gap_is_shown_first_and_a_loss_behind_a_contradiction() {
    let mut stream = Stream::new(BlockSizeClaim::Unknown, true);
    stream.stores(2, 16);
    stream.stores(1, 32);
    stream.next += 1;
    stream.stores(1, 16);
    assert_eq!(stream.status(), SourceStatus::degraded(SourceReason::CatchingUp));
    stream.run(Source::replay_failed);
    assert_eq!(stream.status(), SourceStatus::degraded(refused(16, 32)));
    stream.stores(8, 16);
    assert_eq!(stream.status(), SourceStatus::degraded(SourceReason::ReplayFailed));
}

#[test]
fn a_clear_or_a_restart_takes_the_new_size() {
    let learned = || {
        let mut stream = Stream::new(BlockSizeClaim::Unknown, false);
        stream.stores(3, 16);
        stream.stores(1, 32);
        stream
    };
    let mut cleared = learned();
    cleared.live(payload(1000, true));
    let mut restarted = learned();
    restarted.next = 0;
    for mut stream in [cleared, restarted] {
        stream.stores(2, 32);
        assert_eq!((&stream.taken[..], stream.status()), (&[32, 32][..], SourceStatus::EXACT));
    }
}

#[test]
fn a_snapshot_of_a_stream_says_its_size() {
    let last = LastMessage { sequence: 0, content: 0 };
    let mut source = Source::resumed(false, START, last).expecting(BlockSizeClaim::Told(size(16)));
    source.connected(&mut Vec::new());
    let mut actions = Vec::new();
    source.live(1, pages(1, 32), &mut actions);
    let is_refused =
        |action: &SourceAction| matches!(action, SourceAction::Apply { batch, .. } if batch.rejected == 1);
    assert!(actions.iter().any(is_refused), "{actions:?}");
}
