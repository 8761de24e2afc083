//! A source against a small world: an engine with a cache of its own that restarts and resets, a wire that loses, a
//! replay socket that forgets and fails, a router that restarts from a snapshot, in any order.

mod engine;

use std::collections::VecDeque;

use kvroute_core::{Blocks, KvEvent};
use proptest::prelude::*;

use super::*;
use crate::events::RankTrust;
use engine::{Blockset, CAPACITY, Engine, MARKS, Sent, of_mark};

#[derive(Clone, Copy, Debug)]
enum Step {
    Publish {
        block: u64,
        is_lost: bool,
        clears: bool,
    },
    Deliver,
    AnswerReplay,
    /// A part of an answer is lost on the way; at the end, the end itself.
    LoseReplayed,
    FailReplay,
    AnswerStart,
    Disconnect,
    Connect,
    RestartEngine,
    TakeSnapshot,
    RestartRouter,
    Wait,
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    has_replay: bool,
    tells_start: bool,
    /// Messages that the replay socket keeps.
    keeps: usize,
}

/// What the router knows.
#[derive(Clone, Default)]
struct Known {
    held: Blockset,
    /// What was applied since the last clear.
    applied: Vec<Sent>,
}

struct World {
    setting: Setting,
    engine: Engine,
    source: Source,
    trust: RankTrust,
    known: Known,
    position: Option<LastMessage>,
    snapshot: Option<(LastMessage, Known)>,
    is_connected: bool,
    wire: VecDeque<(Sent, Bytes)>,
    /// Answers under way; empty means that only the end marker is left.
    replay: Option<VecDeque<(Sent, Bytes)>>,
    /// Whether the answer under way has brought anything: what is sent first is never thrown away.
    has_replay_begun: bool,
    is_start_asked: bool,
    has_replay_failed: bool,
    /// How often another process of the engine could be met, and how often one was.
    restarts: usize,
    counted_restarts: usize,
    now: Duration,
}

// === impl World ===

impl World {
    fn new(setting: Setting) -> Self {
        Self {
            setting,
            engine: Engine::new(),
            source: Source::new(setting.has_replay, START),
            trust: RankTrust::reported(Some(Blocks::from(CAPACITY)), START),
            known: Known::default(),
            position: None,
            snapshot: None,
            is_connected: false,
            wire: VecDeque::new(),
            replay: None,
            has_replay_begun: false,
            is_start_asked: false,
            has_replay_failed: false,
            restarts: 0,
            counted_restarts: 0,
            now: START,
        }
    }

    fn run(&mut self, input: impl FnOnce(&mut Source, &mut Vec<SourceAction>)) {
        let mut actions = Vec::new();
        input(&mut self.source, &mut actions);
        for action in actions {
            match action {
                SourceAction::Clear => self.clear(),
                SourceAction::Count(SourceIncident::Restart) => self.counted_restarts += 1,
                SourceAction::Count(_) => {}
                SourceAction::Apply { batch, position } => self.apply(&batch, position),
                SourceAction::RequestReplay { from } => {
                    assert!(self.setting.has_replay);
                    self.has_replay_begun = false;
                    let kept = self.engine.log.iter().rev().take(self.setting.keeps).rev();
                    self.replay =
                        Some(kept.filter(|((_, sequence), _)| *sequence >= from).cloned().collect());
                }
            }
        }
        let reason = self.source.missing.or(self.source.doubt);
        self.has_replay_failed |=
            matches!(reason, Some(SourceReason::ReplayLossy | SourceReason::ReplayFailed));
        self.trust.stream(self.source.status(START), START);
        self.check();
    }

    fn clear(&mut self) {
        self.known = Known::default();
        self.position = None;
        self.trust.cleared();
    }

    fn apply(&mut self, batch: &EventBatch, position: Option<LastMessage>) {
        assert_eq!(batch.undecodable, 1);
        self.position = position;
        self.trust.heard(START);
        for event in &batch.events {
            match event {
                KvEvent::Cleared => {
                    self.known.held.clear();
                    self.trust.cleared();
                }
                KvEvent::Removed { hashes, .. } => {
                    let [EngineHash::Int(hash)] = hashes[..] else { panic!("{hashes:?}") };
                    if hash >= MARKS {
                        self.known.applied.push(of_mark(hash));
                    }
                    self.known.held.remove(&hash);
                }
                KvEvent::Stored(stored) => {
                    let is_new = self.known.held.insert(u64::from(stored.tokens[0]));
                    self.trust.applied(Blocks::new(u64::from(is_new)));
                }
                KvEvent::Moved { .. } => panic!("{event:?}"),
            }
        }
    }

    /// What is applied is one unbroken run of one process, and what is called exact is the engine's true state behind
    /// the last message of it.
    fn check(&self) {
        let applied = &self.known.applied;
        for pair in applied.windows(2) {
            assert_eq!((pair[0].0, pair[0].1 + 1), pair[1], "{applied:?}");
        }
        // An engine that keeps too little looks like another process.
        let keeps_all = self.setting.keeps == 1000;
        assert!(!keeps_all || self.counted_restarts <= self.restarts, "a restart is counted once");
        assert!(!self.source.has_foreign_replay());
        let is_exact = self.trust.status(START) == SourceStatus::EXACT;
        if let (true, Some(last)) = (is_exact, applied.last()) {
            assert_eq!(self.known.held, self.engine.history[last], "behind {last:?} of {applied:?}");
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Publish { block, is_lost, clears } => self.publish(block, is_lost, clears),
            Step::Deliver => {
                if let Some(((_, sequence), payload)) = self.wire.pop_front() {
                    self.run(|source, actions| source.live(sequence, payload, actions));
                }
            }
            Step::AnswerReplay => self.answer_replay(),
            Step::LoseReplayed => self.lose_replayed(),
            Step::FailReplay => {
                if self.replay.take().is_some() {
                    self.has_replay_failed = true;
                    self.run(Source::replay_failed);
                }
            }
            Step::AnswerStart => {
                if std::mem::take(&mut self.is_start_asked) {
                    let start = Duration::from_secs(self.engine.process * 100);
                    self.run(|source, actions| source.started(Some(start), actions));
                }
            }
            Step::Disconnect => self.disconnect(),
            Step::Connect => self.connect(),
            Step::RestartEngine => self.restart_engine(),
            Step::TakeSnapshot => self.snapshot = self.position.map(|last| (last, self.known.clone())),
            Step::RestartRouter => self.restart_router(),
            Step::Wait => {
                self.now += Duration::from_secs(600);
                let now = self.now;
                self.run(|source, actions| source.tick(now, actions));
            }
        }
    }

    fn publish(&mut self, block: u64, is_lost: bool, clears: bool) {
        self.engine.publish(block, clears);
        if self.is_connected && !is_lost {
            self.wire.extend(self.engine.log.last().cloned());
        }
    }

    fn answer_replay(&mut self) {
        match self.replay.as_mut().map(VecDeque::pop_front) {
            None => {}
            Some(Some(((_, sequence), payload))) => {
                self.has_replay_begun = true;
                self.run(|source, actions| source.replayed(sequence, &payload, actions));
            }
            Some(None) => {
                self.replay = None;
                self.run(Source::replay_ended);
            }
        }
    }

    fn lose_replayed(&mut self) {
        let Some(replay) = self.replay.as_mut().filter(|_| self.has_replay_begun) else { return };
        if replay.pop_front().is_none() {
            self.replay = None;
            self.run(Source::replay_broke_off);
        }
    }

    fn connect(&mut self) {
        if std::mem::replace(&mut self.is_connected, true) {
            return;
        }
        self.run(Source::connected);
        if self.setting.tells_start {
            self.is_start_asked = true;
            self.run(|source, _| source.await_start());
        }
    }

    fn disconnect(&mut self) {
        if self.is_connected {
            self.is_connected = false;
            self.is_start_asked = false;
            self.wire.clear();
            self.run(|source, _| source.disconnected(START));
        }
    }

    fn restart_engine(&mut self) {
        self.disconnect();
        self.engine.restart();
        self.restarts += 1;
        // The old process answers nothing any more; the caller sees its replay break.
        self.step(Step::FailReplay);
        if !self.setting.has_replay && self.source.process_start.is_none() {
            // Numbers alone cannot tell a restart that is first heard by the next number in line. It is heard from
            // its start when the router reconnects faster than an engine loads its model.
            self.step(Step::Connect);
            self.publish(0, false, false);
            self.step(Step::Deliver);
        }
    }

    fn restart_router(&mut self) {
        self.disconnect();
        self.replay = None;
        // A snapshot may be of any process before: that is met once more.
        self.restarts += 1;
        let has_replay = self.setting.has_replay;
        (self.source, self.known, self.position) = match self.snapshot.clone() {
            Some((last, known)) => (Source::resumed(has_replay, START, last), known, Some(last)),
            None => (Source::new(has_replay, START), Known::default(), None),
        };
        self.trust = RankTrust::reported(Some(Blocks::from(CAPACITY)), START);
    }

    /// Lets everything that is under way arrive.
    fn settle(&mut self) {
        while !self.wire.is_empty() || self.replay.is_some() || self.is_start_asked {
            self.step(Step::Deliver);
            self.step(Step::AnswerReplay);
            self.step(Step::AnswerStart);
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..10_u64, prop::bool::weighted(0.2), prop::bool::weighted(0.1))
            .prop_map(|(block, is_lost, clears)| Step::Publish { block, is_lost, clears }),
        12 => Just(Step::Deliver),
        9 => Just(Step::AnswerReplay),
        2 => Just(Step::LoseReplayed),
        1 => Just(Step::FailReplay),
        2 => Just(Step::AnswerStart),
        1 => Just(Step::Disconnect),
        6 => Just(Step::Connect),
        1 => Just(Step::RestartEngine),
        1 => Just(Step::TakeSnapshot),
        1 => Just(Step::RestartRouter),
        2 => Just(Step::Wait),
    ]
}

fn setting() -> impl Strategy<Value = Setting> {
    let keeps = prop_oneof![Just(1000_usize), 0..6_usize];
    (any::<bool>(), any::<bool>(), keeps).prop_map(|(has_replay, tells_start, keeps)| Setting {
        has_replay,
        tells_start,
        keeps,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_called_exact_is_the_engines_true_state_and_a_refill_makes_it_exact(
        setting in setting(),
        steps in prop::collection::vec(step(), 0..150),
    ) {
        let mut world = World::new(setting);
        for step in steps {
            world.step(step);
        }
        world.step(Step::Connect);
        world.settle();
        world.publish(20, false, false);
        world.settle();
        prop_assert_eq!(world.known.applied.last(), world.engine.log.last().map(|(sent, _)| sent));
        if setting.has_replay && setting.keeps == 1000 {
            if world.has_replay_failed {
                (0..2).for_each(|_| world.step(Step::Wait));
                world.settle();
            }
            prop_assert_eq!(world.source.status(START), SourceStatus::EXACT);
        }

        for block in 30..30 + CAPACITY as u64 {
            world.publish(block, false, false);
            world.settle();
        }
        prop_assert_eq!(world.trust.status(START), SourceStatus::EXACT);
        prop_assert_eq!(&world.known.held, &world.engine.cache.iter().copied().collect());
    }
}
