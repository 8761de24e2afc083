use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Small numbers, whole words, and numbers that differ in their high bits only.
fn key() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..40, any::<u64>(), (0u64..40).prop_map(|high| high << 58)]
}

proptest! {
    #[test]
    fn behaves_as_a_map(changes in prop::collection::vec((prop::bool::weighted(0.7), key(), any::<u32>()), 1..400)) {
        let mut model = BTreeMap::new();
        let mut names = Names::default();
        for (insert, raw, location) in changes {
            let key = EngineKey::from_raw(raw);
            prop_assert_eq!(names.get(key).map(Location::get), model.get(&raw).copied());
            if insert {
                let is_new = !model.contains_key(&raw);
                prop_assert_eq!(names.insert(key, Location::from_raw(location)), is_new);
                model.entry(raw).or_insert(location);
            } else {
                prop_assert_eq!(names.remove(key).map(Location::get), model.remove(&raw));
            }
            prop_assert_eq!(names.len(), model.len());
        }
        let each: BTreeMap<u64, u32> = names.each().map(|(key, at)| (key.get(), at.get())).collect();
        prop_assert_eq!(each, model);
    }
}

#[test]
fn tens_of_thousands_of_names_take_less_than_twenty_one_bytes_each_and_give_them_back() {
    let mut names = Names::default();
    for raw in 0..60_000 {
        names.insert(EngineKey::from_raw(raw), Location::from_raw(raw as u32));
        assert!(
            raw < 1000 || names.bytes() < 21 * names.len(),
            "{} bytes for {} names",
            names.bytes(),
            names.len()
        );
    }
    for raw in 0..60_000 {
        assert_eq!(names.remove(EngineKey::from_raw(raw)).map(Location::get), Some(raw as u32));
    }
    assert!(names.bytes() < 60_000, "{} bytes without a name", names.bytes());
}
