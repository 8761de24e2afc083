//! What a rank that accepts requests and never answers still draws, as long as nobody has noticed it.

use super::*;

/// The rank that hangs.
const HUNG: usize = 0;

/// Between two requests.
const GAP: Duration = Duration::from_millis(250);

/// A fleet one of whose ranks hangs after so many requests, and what comes since.
struct Hung {
    policy: &'static str,
    streams: bool,
    /// How long a client waits for its first byte.
    patience: Duration,
    /// Requests that came before.
    well: u32,
    /// Requests that a well rank has in work at a time.
    in_work: usize,
}

/// Where the requests went since.
#[derive(Debug)]
struct Drawn {
    by_rank: [usize; RANKS as usize],
    /// Most requests that waited on the hung rank at one time.
    most_waiting: usize,
}

// === impl Hung ===

impl Hung {
    fn run(&self, requests: u32) -> Drawn {
        let (ranks, hashed) = (ranks(), HashedPrompts::default());
        let mut selector = selector(self.policy, &[]);
        let (mut random, mut shadow_random, mut traffic) = (rng(1), rng(2), rng(3));
        let mut drawn = Drawn { by_rank: [0; RANKS as usize], most_waiting: 0 };
        let (mut waiting, mut in_work) = (Vec::new(), std::collections::VecDeque::new());
        for step in 0..self.well + requests {
            let now = step * GAP;
            waiting.retain(|(attempt, since): &(AttemptId, Duration)| {
                let stays = now.saturating_sub(*since) < self.patience;
                if !stays {
                    selector.book_mut().release(*attempt, now);
                }
                stays
            });
            let lengths = [Tokens::new(traffic.random_range(200..4000))];
            let question = Question {
                prompt_lengths: &lengths,
                shows_first_token: self.streams,
                ..cold(&ranks, &hashed, now)
            };
            let decided = selector.decide(&question, &mut random, &mut shadow_random).unwrap();
            let hangs = step >= self.well && decided.position == HUNG;
            if step >= self.well {
                drawn.by_rank[decided.position] += 1;
            }
            if hangs {
                waiting.push((decided.attempt, now));
                drawn.most_waiting = drawn.most_waiting.max(waiting.len());
                continue;
            }
            selector.book_mut().first_token(decided.attempt, now + GAP / 10);
            in_work.push_back(decided.attempt);
            if in_work.len() > self.in_work {
                let done = in_work.pop_front().unwrap();
                selector.book_mut().output(done, 0, Tokens::new(100), now + GAP / 5);
                selector.book_mut().release(done, now + GAP / 5);
            }
        }
        drawn
    }
}

/// A fleet whose well ranks answer at once, with so many requests behind it. One rank hangs from then on.
fn idle(policy: &'static str, streams: bool, well: u32) -> Hung {
    Hung { policy, streams, patience: Duration::MAX, well, in_work: 0 }
}

#[test]
fn while_a_request_waits_for_its_first_byte_none_joins_it_where_others_have_nothing_to_do() {
    for (streams, well) in [(true, 0), (true, 1200), (false, 0), (false, 1200)] {
        let drawn = idle("least-loaded", streams, well).run(240);
        assert_eq!(drawn.by_rank[HUNG], 1, "streams {streams} after {well}: {drawn:?}");
    }
}

#[test]
fn requests_that_wait_are_held_against_a_rank_of_two_drawn_at_random_too() {
    for streams in [true, false] {
        let drawn = idle("power-of-two", streams, 0).run(240);
        assert_eq!(drawn.by_rank[HUNG], 1, "streams {streams}: {drawn:?}");
    }
}

/// A rank that many have given up on would look like one that was given nothing, and get the next one each time.
#[test]
fn a_rank_whose_clients_gave_up_is_no_better_than_one_that_answered() {
    for well in [0, 1200] {
        let hung = Hung { patience: GAP / 2, ..idle("least-loaded", true, well) };
        let drawn = hung.run(250);
        assert!((40..=60).contains(&drawn.by_rank[HUNG]), "a fifth after {well}: {drawn:?}");
    }
}

#[test]
fn a_busy_fleet_gives_a_hung_rank_no_more_than_each_of_the_others_has_in_work() {
    for (streams, most) in [(true, 1), (false, 4)] {
        let drawn = Hung { in_work: 12, ..idle("least-loaded", streams, 0) }.run(240);
        assert!(drawn.most_waiting <= most, "streams {streams}: {drawn:?}");
    }
}
