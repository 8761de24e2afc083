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
            match names.find(key) {
                Ok(found) => prop_assert_eq!(Some(&found.get()), model.get(&raw)),
                Err(place) if insert => {
                    names.insert(place, Location::from_raw(location));
                    model.insert(raw, location);
                }
                Err(_) => prop_assert!(!model.contains_key(&raw)),
            }
            if !insert {
                prop_assert_eq!(names.remove(key).map(Location::get), model.remove(&raw));
            }
            prop_assert_eq!(names.len(), model.len());
        }
        let each: BTreeMap<u64, u32> = names.each().map(|(key, at)| (key.get(), at.get())).collect();
        prop_assert_eq!(each, model);
    }
}

#[test]
fn tens_of_thousands_of_names_take_less_than_nineteen_bytes_each_and_give_them_back() {
    let mut names = Names::default();
    for raw in 0..60_000 {
        if let Err(place) = names.find(EngineKey::from_raw(raw)) {
            names.insert(place, Location::from_raw(raw as u32));
        }
        assert!(
            raw < 1000 || names.bytes() < 19 * names.len(),
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
