use std::collections::BTreeMap;

use kvroute_core::WorkerRole;
use proptest::prelude::*;

use super::*;

/// A worker as a fleet keeps it: which one it is, and how far.
type Kept = (usize, WorkerConfig, Stage);

fn worker() -> impl Strategy<Value = WorkerConfig> {
    let role = prop::sample::select(vec![WorkerRole::Aggregated, WorkerRole::Decode]);
    (0_u16..6, role)
        .prop_map(|(port, role)| WorkerConfig { role, ..WorkerConfig::at(format!("http://w:{port}")) })
}

fn stage() -> impl Strategy<Value = Stage> {
    prop::sample::select(vec![Stage::Works, Stage::Leaves, Stage::Ends])
}

/// Workers that are there, each name once.
fn fleet() -> impl Strategy<Value = Vec<Kept>> {
    let kept = (0_usize..2, worker(), stage());
    prop::collection::vec(kept, 0..6).prop_map(|kept| {
        let named: BTreeMap<_, _> = kept.into_iter().map(|kept| (kept.1.id(), kept)).collect();
        named.into_values().collect()
    })
}

fn wishes() -> impl Strategy<Value = Vec<(usize, WorkerConfig)>> {
    prop::collection::vec((0_usize..2, worker()), 0..8)
}

fn due(fleet: &[Kept], wishes: &[(usize, WorkerConfig)]) -> Vec<Change> {
    let present: Vec<_> =
        fleet.iter().map(|(plan, config, stage)| Present { plan: *plan, config, stage: *stage }).collect();
    let wishes: Vec<_> = wishes.iter().map(|(plan, config)| Wish { plan: *plan, config }).collect();
    changes(&present, &wishes)
}

fn apply(fleet: &mut Vec<Kept>, changes: Vec<Change>) {
    for change in changes {
        match change {
            Change::Add { plan, config } => {
                assert!(fleet.iter().all(|(_, kept, _)| kept.id() != config.id()), "a name came twice");
                fleet.push((plan, config, Stage::Works));
            }
            Change::Leave(id) => enter(fleet, &id, Stage::Works, Stage::Leaves),
            Change::CallBack(id) => enter(fleet, &id, Stage::Leaves, Stage::Works),
        }
    }
}

fn enter(fleet: &mut [Kept], id: &WorkerId, from: Stage, to: Stage) {
    let kept = fleet.iter_mut().find(|(_, config, _)| config.id() == *id).unwrap();
    assert_eq!(kept.2, from);
    kept.2 = to;
}

/// The first wish of each name.
fn wanted(wishes: &[(usize, WorkerConfig)]) -> BTreeMap<WorkerId, (usize, WorkerConfig)> {
    let mut wanted = BTreeMap::new();
    for wish in wishes {
        wanted.entry(wish.1.id()).or_insert_with(|| wish.clone());
    }
    wanted
}

proptest! {
    #[test]
    fn those_who_are_wanted_are_there_in_the_end_and_nobody_else(mut fleet in fleet(), wishes in wishes()) {
        // Whoever leaves has left by the next look, and what it held up is made up for then.
        for _ in 0..3 {
            let changes = due(&fleet, &wishes);
            apply(&mut fleet, changes);
            fleet.retain(|(.., stage)| *stage == Stage::Works);
        }
        let there: BTreeMap<_, _> =
            fleet.into_iter().map(|(plan, config, _)| (config.id(), (plan, config))).collect();
        prop_assert_eq!(there, wanted(&wishes));
    }

    #[test]
    fn whoever_is_wanted_as_it_is_never_leaves(mut fleet in fleet(), wishes in wishes()) {
        let before = fleet.clone();
        let changes = due(&fleet, &wishes);
        apply(&mut fleet, changes);
        let wanted = wanted(&wishes);
        for (plan, config, stage) in before {
            let is_wanted = wanted.get(&config.id()) == Some(&(plan, config.clone()));
            let after = fleet.iter().find(|(_, kept, _)| kept.id() == config.id()).unwrap();
            prop_assert_eq!(&after.1, &config, "nobody is exchanged while it is there");
            let expected = match (stage, is_wanted) {
                (Stage::Ends, _) => Stage::Ends,
                (_, true) => Stage::Works,
                (_, false) => Stage::Leaves,
            };
            prop_assert_eq!(after.2, expected);
        }
    }

    #[test]
    fn a_second_look_has_nothing_to_do(mut fleet in fleet(), wishes in wishes()) {
        let changes = due(&fleet, &wishes);
        apply(&mut fleet, changes);
        prop_assert_eq!(due(&fleet, &wishes), Vec::new());
    }
}
