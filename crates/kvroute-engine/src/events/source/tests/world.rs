//! A source against a small world: an engine that restarts, a wire that loses, a replay socket that forgets and
//! fails, in any order.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// One message: which process sent it, its number there, whether it clears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    process: u64,
    sequence: u64,
    clears: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Publish { is_lost: bool, clears: bool },
    Deliver,
    AnswerReplay,
    FailReplay,
    Disconnect,
    Connect,
    Restart,
}

struct World {
    source: Source,
    has_replay: bool,
    /// Messages that the replay socket keeps.
    keeps: usize,
    process: u64,
    log: Vec<Sent>,
    is_connected: bool,
    wire: VecDeque<Sent>,
    /// Answers under way; empty means that only the end marker is left.
    replay: Option<VecDeque<Sent>>,
    has_replay_failed: bool,
    /// What was applied since the last clear.
    applied: Vec<Sent>,
}

impl Sent {
    fn mark(self) -> u64 {
        self.process * 1000 + self.sequence * 2 + u64::from(self.clears)
    }

    fn of_mark(mark: u64) -> Self {
        Self { process: mark / 1000, sequence: mark % 1000 / 2, clears: mark % 2 == 1 }
    }

    fn payload(self) -> Bytes {
        payload(self.mark(), self.clears)
    }
}

impl World {
    fn new(has_replay: bool, keeps: usize) -> Self {
        Self {
            source: Source::new(has_replay, START),
            has_replay,
            keeps,
            process: 1,
            log: Vec::new(),
            is_connected: false,
            wire: VecDeque::new(),
            replay: None,
            has_replay_failed: false,
            applied: Vec::new(),
        }
    }

    fn run(&mut self, input: impl FnOnce(&mut Source, &mut Vec<SourceAction>)) {
        let mut actions = Vec::new();
        input(&mut self.source, &mut actions);
        for action in actions {
            match action {
                SourceAction::Clear => self.applied.clear(),
                SourceAction::Count(_) => {}
                SourceAction::Apply(batch) => self.applied.push(Sent::of_mark(mark_of(&batch))),
                SourceAction::RequestReplay { from } => {
                    assert!(self.has_replay);
                    let kept = self.log.iter().rev().take(self.keeps).rev();
                    self.replay = Some(kept.filter(|sent| sent.sequence >= from).copied().collect());
                }
            }
        }
        self.check();
    }

    /// What is applied is one unbroken run of one process; if it is called exact, it misses nothing before it.
    fn check(&self) {
        for pair in self.applied.windows(2) {
            assert_eq!(
                (pair[0].process, pair[0].sequence + 1),
                (pair[1].process, pair[1].sequence),
                "{:?}",
                self.applied
            );
        }
        if self.source.status(START).state == SourceState::Exact {
            let is_whole = |first: &Sent| first.sequence == 0 || self.applied.iter().any(|sent| sent.clears);
            assert!(self.applied.first().is_none_or(is_whole), "{:?}", self.applied);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Publish { is_lost, clears } => self.publish(is_lost, clears),
            Step::Deliver => {
                if let Some(sent) = self.wire.pop_front() {
                    self.run(|source, actions| source.live(sent.sequence, sent.payload(), actions));
                }
            }
            Step::AnswerReplay => match self.replay.as_mut().map(VecDeque::pop_front) {
                None => {}
                Some(Some(sent)) => {
                    self.run(|source, actions| source.replayed(sent.sequence, &sent.payload(), actions));
                }
                Some(None) => {
                    self.replay = None;
                    self.run(Source::replay_ended);
                }
            },
            Step::FailReplay => {
                if self.replay.take().is_some() {
                    self.has_replay_failed = true;
                    self.run(Source::replay_failed);
                }
            }
            Step::Disconnect => self.disconnect(),
            Step::Connect => {
                if !self.is_connected {
                    self.is_connected = true;
                    self.run(Source::connected);
                }
            }
            Step::Restart => self.restart(),
        }
    }

    fn publish(&mut self, is_lost: bool, clears: bool) {
        let sent = Sent { process: self.process, sequence: self.log.len() as u64, clears };
        self.log.push(sent);
        if self.is_connected && !is_lost {
            self.wire.push_back(sent);
        }
    }

    fn disconnect(&mut self) {
        if self.is_connected {
            self.is_connected = false;
            self.wire.clear();
            self.run(|source, _| source.disconnected(START));
        }
    }

    fn restart(&mut self) {
        self.disconnect();
        self.process += 1;
        self.log.clear();
        // The old process answers nothing any more; the caller sees its replay break.
        self.step(Step::FailReplay);
        if !self.has_replay {
            // Numbers alone cannot tell a restart that is first heard by the next number in line. It is heard from
            // its start when the router reconnects faster than an engine loads its model.
            self.step(Step::Connect);
            self.publish(false, false);
            self.step(Step::Deliver);
        }
    }

    /// Lets everything that is under way arrive.
    fn settle(&mut self) {
        while !self.wire.is_empty() || self.replay.is_some() {
            self.step(Step::Deliver);
            self.step(Step::AnswerReplay);
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (prop::bool::weighted(0.2), prop::bool::weighted(0.1))
            .prop_map(|(is_lost, clears)| Step::Publish { is_lost, clears }),
        8 => Just(Step::Deliver),
        6 => Just(Step::AnswerReplay),
        1 => Just(Step::FailReplay),
        1 => Just(Step::Disconnect),
        4 => Just(Step::Connect),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_is_applied_is_one_unbroken_run_and_ends_at_the_newest_message(
        has_replay: bool,
        keeps in prop_oneof![Just(1000_usize), 0..6_usize],
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut world = World::new(has_replay, keeps);
        for step in steps {
            world.step(step);
        }
        world.step(Step::Connect);
        world.settle();
        world.publish(false, false);
        world.settle();

        prop_assert_eq!(world.applied.last(), world.log.last());
        let is_all_kept = has_replay && keeps == 1000 && !world.has_replay_failed;
        if is_all_kept {
            prop_assert_eq!(world.source.status(START), SourceStatus::EXACT);
            prop_assert_eq!(&world.applied, &world.log);
        }
    }
}
