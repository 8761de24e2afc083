//! What reports teach.

use super::*;

#[test]
fn a_report_that_confirms_changes_nothing() {
    let mut world = World::with_capacity(100);
    world.served(1, &prompt(&[1, 2, 3]), 0);
    world.placed(2, &prompt(&[1, 2, 3, 4]), 1);
    world.grew(2, 0, 1);
    assert_eq!(world.reported(2, 48, 48, 1), Correction::default());
    assert_eq!(world.reported(2, 48, 64, 1), Correction::default());
    assert_eq!((world.rank.blocks().get(), world.rank.capacity().get()), (4, 100));
}

#[test]
fn a_prompt_on_a_block_boundary_gives_up_its_last_block_without_a_loss() {
    let mut world = World::with_capacity(100);
    let boundary = prompt_with_tail(&[1, 2, 3], 0);
    world.served(1, &boundary, 0);
    world.placed(2, &boundary, 1);
    assert_eq!(world.reported(2, 48, 32, 1), Correction::default());
    assert_eq!(world.reported(2, 48, 31, 1).lost, Tokens::new(1));
}

#[test]
fn what_hangs_behind_a_lost_block_is_forgotten() {
    let mut world = World::with_capacity(1600);
    world.served(1, &prompt(&[1, 2, 3]), 0);
    world.served(2, &prompt(&[1, 2, 4, 5]), 1);
    world.served(3, &prompt(&[1, 6]), 2);
    world.placed(4, &prompt(&[1, 2, 7]), 3);
    world.grew(4, 0, 4);
    let correction = world.reported(4, 32, 20, 4);
    assert_eq!(correction, Correction { lost: Tokens::new(12), dropped: Blocks::new(3) });
    let cached =
        [&[1, 2, 3][..], &[1, 2, 4, 5], &[1, 6], &[1, 2, 7]].map(|contents| world.cached(&prompt(contents)));
    assert_eq!(cached, [2, 2, 2, 3]);
    assert_eq!(world.index.blocks(SLOT), world.rank.blocks());
}

#[test]
fn what_others_used_since_survives_a_correction() {
    let mut world = World::with_capacity(1600);
    world.served(1, &prompt(&[1, 2, 3]), 0);
    world.served(2, &prompt(&[1, 2, 4]), 0);
    world.placed(3, &prompt(&[1, 2, 5]), 1);
    world.placed(4, &prompt(&[1, 2, 4]), 2);
    world.grew(4, 0, 2);
    world.served(5, &prompt(&[1, 2, 6]), 3);
    assert_eq!(world.reported(3, 32, 0, 4).dropped, Blocks::new(1));
    let cached = [3, 4, 5, 6].map(|last| world.cached(&prompt(&[1, 2, last])));
    assert_eq!(cached, [2, 3, 3, 3]);
}

#[test]
fn what_another_attempt_was_using_is_not_lost_but_unshared() {
    let mut world = World::with_capacity(1600);
    world.served(1, &prompt(&[1, 2, 3]), 0);
    world.placed(2, &prompt(&[1, 2]), 1);
    world.grew(2, 0, 1);
    world.placed(3, &prompt(&[1, 2, 4]), 2);
    assert_eq!(world.reported(3, 32, 16, 3), Correction { lost: Tokens::new(16), dropped: Blocks::ZERO });
    assert_eq!((world.rank.capacity().get(), world.cached(&prompt(&[1, 2, 3]))), (1600, 3));
}

#[test]
fn losses_teach_a_smaller_capacity_and_confirmations_a_larger_one() {
    let mut world = World::with_capacity(1600);
    for number in 0..100 {
        world.served(number, &prompt_with_tail(&[number as u32, 1000, 1001, 1002], 0), number);
    }
    assert_eq!(world.rank.blocks().get(), 400);
    let first = prompt_with_tail(&[0, 1000, 1001, 1002], 1);
    world.placed(200, &first, 200);
    assert_eq!(world.reported(200, 64, 0, 200).lost, Tokens::new(64));
    assert_eq!(world.rank.capacity().get(), 401 - 50);
    world.finished(200, 201);
    world.expire(201);
    assert_eq!(world.rank.blocks().get(), 351 - 1, "the partial block took one place");
    assert_eq!(world.cached(&first), 4);

    world.placed(201, &prompt(&[50, 1000, 1001, 1002]), 202);
    assert_eq!(world.reported(201, 64, 0, 202).lost, Tokens::new(64));
    assert_eq!(world.rank.capacity().get(), 351, "used before the capacity was lowered");
    world.finished(201, 203);

    for number in 0..16 {
        world.placed(300 + number, &first, 204);
        world.reported(300 + number, 64, 64, 204);
        world.finished(300 + number, 205);
    }
    assert_eq!(world.rank.capacity().get(), 351 + 16 * 4 / 8);
}

#[test]
fn without_a_capacity_losses_teach_one() {
    let mut world = World::without_capacity();
    for number in 0..600 {
        world.served(number, &prompt_with_tail(&[number as u32, 1000, 1001, 1002], 0), 0);
    }
    world.placed(1000, &prompt(&[7, 1000, 1001]), 1);
    world.reported(1000, 48, 0, 1);
    assert_eq!(world.rank.capacity().get(), 2401 - 300);
    assert_eq!(world.rank.blocks().get(), 2101 - 1, "the partial block takes one place");
}

#[test]
fn a_report_on_several_prompts_corrects_nothing() {
    let mut world = World::with_capacity(1600);
    world.served(1, &prompt(&[1, 2, 3]), 0);
    world.placed(2, &prompt(&[1, 2, 4]), 1);
    world.placed(2, &prompt(&[1, 2, 5]), 1);
    assert_eq!(world.reported(2, 64, 0, 1), Correction::default());
    assert_eq!(world.reported(77, 64, 0, 1), Correction::default());
    assert_eq!((world.cached(&prompt(&[1, 2, 3])), world.rank.capacity().get()), (3, 1600));
}
