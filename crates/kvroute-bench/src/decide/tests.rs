use super::*;
use crate::index::workload::Event;
use contestant::Callers;
use steady::prepared;
use traffic::Traffic;

const WORKERS: usize = 1000;

/// One worker of many holds the prompt; nobody has anything to do.
fn picks_the_holder<C: Contestant>() {
    let workload = Workload::chat(8, WORKERS, 1, 1);
    let Event::Store { worker: holder, .. } = workload.stores[0] else { panic!("a removal") };
    let contestant: C = prepared(WORKERS, Callers::Several, &workload.stores).unwrap();
    let mut known = Traffic::new(&workload);
    let request = known.find(|request| is_known(&workload, request));
    let (placed, _) = contestant.decide(&request.unwrap(), &mut C::Room::default()).unwrap();
    assert_eq!(contestant.loads()[holder as usize], 1);
    contestant.first_token(&placed).unwrap();
    contestant.release(placed).unwrap();
    assert_eq!(contestant.loads(), [0; WORKERS]);
}

/// Whether the request begins with a block that is stored.
fn is_known(workload: &Workload, request: &contestant::Request) -> bool {
    let Event::Store { blocks, .. } = &workload.stores[0] else { return false };
    let first: Vec<_> = crate::index::workload::tokens(blocks[0].content).collect();
    request.prompts[0].starts_with(&first)
}

#[test]
fn kvroute_finds_what_was_stored_and_counts_what_it_placed() {
    picks_the_holder::<Kvroute>();
}

#[test]
fn dynamo_finds_what_was_stored_and_counts_what_it_placed() {
    picks_the_holder::<Dynamo>();
}

#[test]
fn a_phase_keeps_as_many_attempts_in_flight() {
    let workload = Workload::chat(4, 3, 1000, 1);
    let mut runner = Runner::<Kvroute>::new(&workload, 12).unwrap();
    runner.phase().unwrap();
    let (most, least) = runner.loads().unwrap();
    assert!(least <= 4 && (4..=12).contains(&most), "{least} to {most}");
}
