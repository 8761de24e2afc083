use std::time::Duration;

use kvroute_select::CostWeights;
use proptest::prelude::*;

use super::*;
use crate::config::{CountMode, IndexConfig, QueueConfig};

fn pool() -> PoolConfig {
    PoolConfig {
        model: Some(ModelName::new("m")),
        ..PoolConfig::of_workers(vec![WorkerConfig::at("http://a:1")])
    }
}

/// A change by its key, and whether a running router can make it.
type Edit = (&'static str, bool, fn(&mut PoolConfig));

const EDITS: [Edit; 14] = [
    ("pool.aliases", true, |pool| pool.aliases = vec!["x".to_owned()]),
    ("pool.kv", true, |pool| pool.weights = CostWeights { temperature: 0.5, ..pool.weights }),
    ("pool.queue", true, |pool| pool.queue = QueueConfig { limit: 3, ..pool.queue }),
    ("pool.migrations", true, |pool| pool.migrations = 5),
    ("pool.timeouts", true, |pool| pool.timeouts.idle = Duration::from_secs(7)),
    ("pool.on_no_prefill", true, |pool| pool.on_no_prefill = crate::config::OnNoPrefill::Strict),
    ("pool.timeouts.connect", false, |pool| pool.timeouts.connect = Duration::from_secs(7)),
    ("pool.policy", false, |pool| pool.policy = "round-robin".to_owned()),
    ("pool.shadow", false, |pool| pool.shadow = vec!["random".to_owned()]),
    ("pool.block_size", false, |pool| pool.block_size = kvroute_core::BlockSize::new(32).ok()),
    ("pool.observe", false, |pool| pool.observe = true),
    ("pool.count", false, |pool| pool.count = CountMode::Off),
    ("pool.index", false, |pool| pool.index = IndexConfig { bytes: 1 << 20, ..pool.index.clone() }),
    ("pool.history", false, |pool| pool.history.enabled = true),
];

fn shown(config: &PoolConfig) -> String {
    format!("{config:?}")
}

proptest! {
    #[test]
    fn what_can_change_does_and_what_cannot_is_named_and_stays(edits in prop::sample::subsequence(EDITS.to_vec(), 0..14)) {
        let old = pool();
        let (mut new, mut possible) = (pool(), pool());
        for (_, can_change, edit) in &edits {
            edit(&mut new);
            if *can_change {
                edit(&mut possible);
            }
        }
        let settled = Settled::of(&old, new.clone());
        let named = |can: bool| edits.iter().filter(|edit| edit.1 == can).map(|edit| edit.0).collect::<Vec<_>>();
        let sorted = |mut keys: Vec<&'static str>| { keys.sort_unstable(); keys };
        prop_assert_eq!(sorted(settled.changed.clone()), sorted(named(true)));
        prop_assert_eq!(sorted(settled.fixed.clone()), sorted(named(false)));
        prop_assert_eq!(shown(&settled.config), shown(&possible));
        let again = Settled::of(&settled.config, new);
        prop_assert!(again.changed.is_empty(), "once it is taken over there is nothing left to change");
        prop_assert_eq!(sorted(again.fixed), sorted(settled.fixed), "what waits for a restart goes on waiting");
    }

    #[test]
    fn every_pool_is_matched_added_or_removed_once(
        old in prop::collection::vec(prop::option::of(0_u8..4), 0..6),
        new in prop::collection::vec(prop::option::of(0_u8..4), 0..6),
    ) {
        let models = |numbers: &[Option<u8>]| -> Vec<_> {
            numbers.iter().map(|number| number.map(|number| ModelName::new(number.to_string()))).collect()
        };
        let (old, new) = (models(&old), models(&new));
        let Matched { pairs, added, removed } = Matched::of(&old, &new);
        let mut of_old: Vec<_> = pairs.iter().map(|pair| pair.0).chain(removed.iter().copied()).collect();
        let mut of_new: Vec<_> = pairs.iter().map(|pair| pair.1).chain(added.iter().copied()).collect();
        of_old.sort_unstable();
        of_new.sort_unstable();
        prop_assert_eq!(of_old, (0..old.len()).collect::<Vec<_>>());
        prop_assert_eq!(of_new, (0..new.len()).collect::<Vec<_>>());
        prop_assert!(pairs.iter().all(|(before, after)| old[*before] == new[*after]));
        let is_lost = |position: &usize| added.iter().any(|other| new[*other] == old[*position]);
        prop_assert!(!removed.iter().any(is_lost), "a pool that both have is one pool");
    }
}

#[test]
fn workers_that_come_and_go_are_named() {
    let at = |names: &[&str]| -> Vec<_> {
        names.iter().map(|name| WorkerConfig::at(format!("http://{name}:1"))).collect()
    };
    let mut report = ReloadReport::default();
    report.moved(&at(&["a", "b"]), &at(&["b", "c"]));
    assert_eq!((report.joining, report.leaving), (vec![WorkerId::new("c:1")], vec![WorkerId::new("a:1")]));
}
