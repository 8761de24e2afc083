use proptest::prelude::*;

use super::*;

fn removal(slot: u32, sequence: u64, cause: RemovalCause) -> Removal {
    Removal { slot: RankSlot::new(slot), sequence: SequenceHash::from_raw(sequence), cause }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn newest(tombstones: &Tombstones, sequence: u64) -> Option<Tombstone> {
    tombstones.newest(SequenceHash::from_raw(sequence), |_| true)
}

fn one_set() -> Tombstones {
    Tombstones::new(size_of::<Set>())
}

#[test]
fn a_tombstone_costs_24_bytes_and_the_table_keeps_to_its_budget() {
    assert_eq!(size_of::<Grave>(), 24);
    for bytes in [0, 191, 192, 1000, 1 << 16] {
        assert!(Tombstones::new(bytes).bytes() <= bytes);
    }
    assert_eq!(Tombstones::new(1 << 16).bytes(), (1 << 16) / 192 * 192);
}

#[test]
fn without_room_nothing_is_remembered() {
    let mut none = Tombstones::new(100);
    none.bury(removal(0, 1, RemovalCause::Evicted), seconds(1));
    none.vacate(RankSlot::new(0));
    assert_eq!(newest(&none, 1), None);
}

#[test]
fn the_newest_of_the_ranks_that_count_is_found() {
    let mut tombstones = one_set();
    tombstones.bury(removal(1, 7, RemovalCause::Evicted), seconds(1));
    tombstones.bury(removal(2, 7, RemovalCause::Cleared), seconds(2));
    tombstones.bury(removal(3, 8, RemovalCause::WorkerGone), seconds(3));
    let of =
        |slot| tombstones.newest(SequenceHash::from_raw(7), |holder| holder == Some(RankSlot::new(slot)));
    let expected =
        |slot, cause, at| Some(Tombstone { slot: Some(RankSlot::new(slot)), cause, at: seconds(at) });
    assert_eq!(newest(&tombstones, 7), expected(2, RemovalCause::Cleared, 2));
    assert_eq!(of(1), expected(1, RemovalCause::Evicted, 1));
    assert_eq!(of(3), None);
    assert_eq!(newest(&tombstones, 9), None);
}

#[test]
fn a_block_that_came_back_and_left_again_has_its_latest_reason() {
    let mut tombstones = one_set();
    tombstones.bury(removal(1, 7, RemovalCause::Evicted), seconds(1));
    tombstones.bury(removal(2, 7, RemovalCause::Cleared), seconds(2));
    tombstones.bury(removal(1, 7, RemovalCause::IndexBudget), seconds(3));
    let found = newest(&tombstones, 7).unwrap();
    assert_eq!((found.cause, found.at), (RemovalCause::IndexBudget, seconds(3)));
    assert_eq!(tombstones.sets[0].iter().filter(|grave| grave.cause.is_some()).count(), 2);
}

#[test]
fn the_oldest_of_a_full_set_falls_out() {
    let mut tombstones = one_set();
    for number in 0..9 {
        tombstones.bury(removal(0, number, RemovalCause::Evicted), seconds(number));
    }
    assert_eq!(newest(&tombstones, 0), None);
    assert!((1..9).all(|number| newest(&tombstones, number).is_some()));
    tombstones.bury(removal(0, 1, RemovalCause::Evicted), seconds(9));
    tombstones.bury(removal(0, 9, RemovalCause::Evicted), seconds(10));
    assert_eq!(newest(&tombstones, 2), None);
    assert!(newest(&tombstones, 1).is_some());
}

#[test]
fn a_replaced_worker_is_still_the_reason_but_no_longer_the_slots_rank() {
    let mut tombstones = one_set();
    tombstones.bury(removal(4, 7, RemovalCause::WorkerGone), seconds(1));
    tombstones.bury(removal(5, 7, RemovalCause::Evicted), seconds(2));
    tombstones.vacate(RankSlot::new(4));
    let in_slot =
        |slot| tombstones.newest(SequenceHash::from_raw(7), |holder| holder == Some(RankSlot::new(slot)));
    assert_eq!(in_slot(4), None);
    assert!(in_slot(5).is_some());
    let left = tombstones.newest(SequenceHash::from_raw(7), |holder| holder.is_none()).unwrap();
    assert_eq!(left, Tombstone { slot: None, cause: RemovalCause::WorkerGone, at: seconds(1) });

    tombstones.bury(removal(4, 7, RemovalCause::Evicted), seconds(3));
    assert_eq!(newest(&tombstones, 7).unwrap().slot, Some(RankSlot::new(4)));
    assert!(tombstones.newest(SequenceHash::from_raw(7), |holder| holder.is_none()).is_some());
}

#[test]
fn ranks_that_left_share_one_tombstone_of_a_block() {
    let mut tombstones = one_set();
    for slot in 0..8 {
        tombstones.bury(removal(slot, 7, RemovalCause::WorkerGone), seconds(u64::from(slot)));
    }
    (0..8).for_each(|slot| tombstones.vacate(RankSlot::new(slot)));
    assert_eq!(newest(&tombstones, 7).unwrap().at, seconds(7));
    assert_eq!(tombstones.sets[0].iter().filter(|grave| grave.cause.is_some()).count(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Bury { slot: u32, sequence: u64, cause: RemovalCause },
    Vacate { slot: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let cause = prop::sample::select(RemovalCause::ALL.to_vec());
    prop_oneof![
        12 => (0u32..3, 0u64..12, cause).prop_map(|(slot, sequence, cause)| Step::Bury {
            slot,
            // Spread over both sets of the table.
            sequence: sequence.wrapping_mul(0x5555_5555_5555_5555),
            cause,
        }),
        1 => (0u32..3).prop_map(|slot| Step::Vacate { slot }),
    ]
}

/// Buried by a rank; `None` once it left.
type Buried = (u64, Option<u32>, RemovalCause, u64);

proptest! {
    /// Against a list for each set, oldest first, from which the oldest is taken when there are nine.
    #[test]
    fn every_answer_equals_the_models(steps in prop::collection::vec(step(), 1..120)) {
        let mut tombstones = Tombstones::new(2 * size_of::<Set>());
        let mut model: [Vec<Buried>; 2] = [Vec::new(), Vec::new()];
        for (time, step) in (0u64..).zip(steps) {
            match step {
                Step::Bury { slot, sequence, cause } => {
                    tombstones.bury(removal(slot, sequence, cause), seconds(time));
                    let set = &mut model[(sequence >> 63) as usize];
                    set.retain(|buried| (buried.0, buried.1) != (sequence, Some(slot)));
                    set.push((sequence, Some(slot), cause, time));
                    set.drain(..set.len().saturating_sub(WAYS));
                }
                Step::Vacate { slot } => {
                    tombstones.vacate(RankSlot::new(slot));
                    for set in &mut model {
                        vacate_model(set, slot);
                    }
                }
            }
            for sequence in (0..12u64).map(|number| number.wrapping_mul(0x5555_5555_5555_5555)) {
                for counts in [None, Some(0), Some(1), Some(2)] {
                    let found = tombstones.newest(SequenceHash::from_raw(sequence), |holder| {
                        holder.map(RankSlot::get) == counts
                    });
                    let buried = model[(sequence >> 63) as usize]
                        .iter()
                        .rfind(|buried| (buried.0, buried.1) == (sequence, counts));
                    let expected = buried.map(|(_, slot, cause, at)| Tombstone {
                        slot: slot.map(RankSlot::new),
                        cause: *cause,
                        at: seconds(*at),
                    });
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}

fn vacate_model(set: &mut Vec<Buried>, slot: u32) {
    for buried in set.iter_mut().filter(|buried| buried.1 == Some(slot)) {
        buried.1 = None;
    }
    let all = set.clone();
    let mut position = 0;
    set.retain(|(sequence, holder, _, _)| {
        position += 1;
        let is_repeated_later = all[position..].iter().any(|later| (later.0, later.1) == (*sequence, None));
        holder.is_some() || !is_repeated_later
    });
}
