use proptest::prelude::*;

use super::*;

const TTL: Duration = Duration::from_secs(60);

/// Sessions in the order of their last use, forgotten only when asked for.
#[derive(Default)]
struct Model(Vec<(u64, u64, u64)>);

impl Model {
    fn remember(&mut self, key: u64, rank: u64, second: u64, most: usize) {
        self.0.retain(|(known, ..)| *known != key);
        self.0.push((key, rank, second));
        let surplus = self.0.len().saturating_sub(most);
        self.0.drain(..surplus);
    }

    fn rank_of(&self, key: u64, second: u64) -> Option<u64> {
        let (_, rank, used) = self.0.iter().find(|(known, ..)| *known == key)?;
        (second - used < TTL.as_secs()).then_some(*rank)
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn what_is_over_is_forgotten_with_the_next_placements_and_not_all_at_once() {
    let mut sessions = Sessions::new(TTL, 1000);
    for key in 0..10 {
        sessions.remember(AffinityKey::new(key), RankKey::new(key), Duration::ZERO);
    }
    let left = (1..=11).map(|turn| {
        sessions.remember(AffinityKey::new(99), RankKey::new(0), seconds(60 + turn));
        (sessions.known.len(), sessions.by_use.len())
    });
    let left: Vec<_> = left.collect();
    assert_eq!(left[..5], [(9, 9), (7, 7), (5, 5), (3, 3), (1, 1)]);
    assert_eq!(left[10], (1, 1));
}

#[test]
fn a_clock_that_runs_backwards_ends_no_session() {
    let mut sessions = Sessions::new(TTL, 10);
    sessions.remember(AffinityKey::new(1), RankKey::new(5), seconds(1000));
    assert_eq!(sessions.rank_of(AffinityKey::new(1), seconds(3)), Some(RankKey::new(5)));
}

proptest! {
    #[test]
    fn sessions_are_known_for_their_time_and_up_to_a_number(
        uses in prop::collection::vec((0u64..12, 0u64..5, 0u64..25), 0..200),
        most in 1usize..10,
    ) {
        let (mut sessions, mut model) = (Sessions::new(TTL, most), Model::default());
        let mut second = 0;
        for (key, rank, passed) in uses {
            second += passed;
            for key in 0..12 {
                let known = sessions.rank_of(AffinityKey::new(key), seconds(second)).map(RankKey::get);
                prop_assert_eq!(known, model.rank_of(key, second));
            }
            sessions.remember(AffinityKey::new(key), RankKey::new(rank), seconds(second));
            model.remember(key, rank, second, most);
            prop_assert!(sessions.known.len() <= most);
            prop_assert_eq!(sessions.known.len(), sessions.by_use.len());
        }
    }
}
