use serde_json::{Value, json};

use super::*;

fn changes_of(decoder: &mut PolledDecoder, events: &Value) -> Vec<PolledChange> {
    let text = events.to_string();
    list(text.as_bytes()).unwrap().map(|event| decoder.read(&event)).collect()
}

fn change(data: &Value) -> PolledChange {
    changes_of(&mut PolledDecoder::default(), &json!([{"event_id": 0, "data": data}])).remove(0)
}

fn block(hash: u64, tokens: &[u32]) -> Value {
    let token = |id: &u32| json!({"type": "unique_token", "token_id": id, "token_extra_id": 0});
    let tokens: Vec<_> = tokens.iter().map(token).collect();
    json!({"type": "stored_block", "block_hash": hash, "tokens": tokens, "cache_level": 0, "priority": 35})
}

fn with(mut block: Value, extra: &Value) -> Value {
    block.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    block
}

fn store(parent: &Value, blocks: &[Value]) -> Value {
    json!({"type": "stored", "parent_hash": parent, "blocks": blocks})
}

fn stored(hashes: &[u64], parent: Option<u64>, tokens: &[u32], size: u32) -> StoredBlocks {
    StoredBlocks {
        hashes: hashes.iter().map(|hash| EngineHash::Int(*hash)).collect(),
        parent: parent.map(EngineHash::Int),
        tokens: tokens.to_vec(),
        block_size: BlockSize::new(size).unwrap(),
        tier: Tier::Device,
        salt: None,
        adapter: None,
        extras: BlockExtras::default(),
    }
}

fn events(change: PolledChange) -> Vec<KvEvent> {
    match change {
        PolledChange::Events(events) => events,
        other => panic!("{other:?}"),
    }
}

fn only_stored(data: &Value) -> StoredBlocks {
    match events(change(data)).remove(0) {
        KvEvent::Stored(stored) => stored,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_store_is_a_run_behind_its_parent() {
    let data = store(&json!(u64::MAX), &[block(7, &[1, 2]), block(8, &[3, 4])]);
    assert_eq!(only_stored(&data), stored(&[7, 8], Some(u64::MAX), &[1, 2, 3, 4], 2));
    assert_eq!(only_stored(&store(&json!(null), &[block(7, &[1, 2])])), stored(&[7], None, &[1, 2], 2));
}

#[test]
fn tokens_may_be_plain_numbers_and_fields_may_be_new() {
    let block = json!({"block_hash": 7, "tokens": [1, 2], "future": {"deep": [1]}});
    let events = json!([{"data": {"blocks": [block], "type": "stored", "x": [null]}, "event_id": 3, "hash_algo": "sha", "y": {}}]);
    let change = changes_of(&mut PolledDecoder::default(), &events).remove(0);
    assert_eq!(change, PolledChange::Events(vec![KvEvent::Stored(stored(&[7], None, &[1, 2], 2))]));
}

#[test]
fn hashes_may_be_numbers_of_either_sign_or_texts() {
    let hash = |value: Value| {
        only_stored(&store(&json!(null), &[json!({"block_hash": value, "tokens": [1]})])).hashes[0]
    };
    assert_eq!(hash(json!("12")), EngineHash::Int(12));
    assert_eq!(hash(json!(-2)), EngineHash::Int(u64::MAX - 1));
    assert_eq!(hash(json!("-2")), EngineHash::Int(u64::MAX - 1));
    let names = ["a1b2", "340282366920938463463374607431768211455", "0a"].map(|name| hash(json!(name)));
    assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2], "{names:?}");
    assert_eq!(hash(json!("a1b2")), names[0]);
    for bad in [json!(null), json!([]), json!(""), json!(true)] {
        let data = store(&json!(null), &[json!({"block_hash": bad, "tokens": [1]})]);
        assert_eq!(change(&data), PolledChange::Undecodable, "{data}");
    }
}

#[test]
fn a_number_beyond_64_bits_is_the_same_name_as_its_text() {
    let hash = |text: &str| {
        let answer = format!(r#"[{{"event_id":1,"data":{{"type":"removed","block_hashes":[{text}]}}}}]"#);
        PolledDecoder::default().read(&list(answer.as_bytes()).unwrap().next().unwrap())
    };
    let big = "340282366920938463463374607431768211455";
    assert_eq!(hash(big), hash(&format!("\"{big}\"")));
}

#[test]
fn removals_leave_every_tier_that_is_in_use() {
    let mut decoder = PolledDecoder::default();
    let removal = json!({"event_id": 1, "data": {"type": "removed", "block_hashes": [7, "8"]}});
    let hashes = vec![EngineHash::Int(7), EngineHash::Int(8)];
    let removed = |tier| KvEvent::Removed { hashes: hashes.clone(), tier };
    let changes = changes_of(&mut decoder, &json!([removal]));
    assert_eq!(changes, [PolledChange::Events(vec![removed(Tier::Device)])]);
    let offloaded =
        json!({"type": "updated", "block_hash": 7, "cache_level": {"old_value": 0, "new_value": 1}});
    let changes = changes_of(&mut decoder, &json!([{"event_id": 2, "data": offloaded}, removal]));
    assert_eq!(changes[1], PolledChange::Events(vec![removed(Tier::Device), removed(Tier::Host)]));
}

#[test]
fn a_changed_cache_level_is_a_move_and_a_changed_priority_is_nothing() {
    let diff = |old: u64, new: u64| json!({"type": "event_diff", "new_value": new, "old_value": old});
    let updated = |level: Value| {
        change(&json!({"type": "updated", "block_hash": 7, "cache_level": level, "priority": diff(1, 2)}))
    };
    let moved = |from, to| PolledChange::Events(vec![KvEvent::Moved { hash: EngineHash::Int(7), from, to }]);
    assert_eq!(updated(diff(0, 1)), moved(Tier::Device, Tier::Host));
    assert_eq!(updated(diff(1, 0)), moved(Tier::Host, Tier::Device));
    assert_eq!(updated(diff(1, 5)), moved(Tier::Host, Tier::Disk));
    assert_eq!([updated(json!(null)), updated(diff(1, 1))], [PolledChange::Ignored, PolledChange::Ignored]);
    assert_eq!(updated(json!({"new_value": 1})), PolledChange::Undecodable);
}

#[test]
fn blocks_on_several_levels_become_runs_that_hang_together() {
    let on = |hash: u64, level: u64| with(block(hash, &[hash as u32, 1]), &json!({"cache_level": level}));
    let data = store(&json!(5), &[on(7, 0), on(8, 0), on(9, 1), on(10, 2)]);
    let expected = [
        stored(&[7, 8], Some(5), &[7, 1, 8, 1], 2),
        StoredBlocks { tier: Tier::Host, ..stored(&[9], Some(8), &[9, 1], 2) },
        StoredBlocks { tier: Tier::Disk, ..stored(&[10], Some(9), &[10, 1], 2) },
    ];
    assert_eq!(events(change(&data)), expected.map(KvEvent::Stored));
}

#[test]
fn the_longest_block_is_the_size_and_what_was_shorter_was_unfinished() {
    let mut decoder = PolledDecoder::default();
    let store = |blocks: &[Value]| json!([{"event_id": 1, "data": store(&json!(null), blocks)}]);
    let changes = changes_of(&mut decoder, &store(&[block(1, &[1, 2, 3])]));
    assert_eq!(changes, [PolledChange::Events(vec![KvEvent::Stored(stored(&[1], None, &[1, 2, 3], 3))])]);

    let changes = changes_of(&mut decoder, &store(&[block(2, &[1, 2, 3, 4]), block(3, &[5])]));
    let whole = KvEvent::Stored(stored(&[2], None, &[1, 2, 3, 4], 4));
    assert_eq!(changes, [PolledChange::Events(vec![KvEvent::Cleared, whole])]);

    assert_eq!(changes_of(&mut decoder, &store(&[block(4, &[7])])), [PolledChange::Ignored]);
}

#[test]
fn blocks_of_several_sizes_in_a_row_cannot_be_read() {
    for sizes in [[1, 2], [2, 3]] {
        let blocks = sizes.map(|size| block(size as u64, &vec![1; size]));
        assert_eq!(change(&store(&json!(null), &blocks)), PolledChange::Undecodable);
    }
    let blocks = [block(1, &[1, 2]), block(2, &[1]), block(3, &[1, 2])];
    assert_eq!(change(&store(&json!(null), &blocks)), PolledChange::Undecodable);
    assert_eq!(change(&store(&json!(null), &[])), PolledChange::Ignored);
}

#[test]
fn only_the_widest_window_counts_and_a_wider_one_starts_over() {
    let mut decoder = PolledDecoder::default();
    let event = |window: Value, hash: u64| json!({"event_id": 1, "window_size": window, "data": store(&json!(null), &[block(hash, &[1, 2])])});
    let kept = |hash: u64| PolledChange::Events(vec![KvEvent::Stored(stored(&[hash], None, &[1, 2], 2))]);
    let created = |window: u64| json!({"event_id": 0, "window_size": window, "data": {"type": "created", "num_blocks_per_cache_level": [9, 0]}});
    let events = json!([
        created(128),
        created(4096),
        created(512),
        event(json!(128), 1),
        event(json!(4096), 2),
        event(json!(null), 3)
    ]);
    let changes = changes_of(&mut decoder, &events);
    assert_eq!(changes[..3], [PolledChange::Created, PolledChange::Created, PolledChange::Created]);
    assert_eq!(changes[3..], [PolledChange::Ignored, kept(2), kept(3)]);

    let late = changes_of(&mut decoder, &json!([event(json!(8192), 4), event(json!(4096), 5)]));
    let PolledChange::Events(events) = &late[0] else { panic!("{late:?}") };
    assert_eq!((&events[0], events.len()), (&KvEvent::Cleared, 2));
    assert_eq!(late[1], PolledChange::Ignored);
}

#[test]
fn a_wider_window_whose_first_event_is_of_no_use_still_clears_what_was_made_of_the_narrower() {
    let event = |window: u64, data: Value| json!({"event_id": 1, "window_size": window, "data": data});
    let whole = |hash: u64| store(&json!(null), &[block(hash, &[1, 2]), block(hash + 1, &[3, 4])]);
    let larger = store(&json!(null), &[block(9, &[1, 2, 3])]);
    let broken = json!({"type": "stored", "blocks": 3});
    for (useless, expected) in [(larger, PolledChange::Refused), (broken, PolledChange::Undecodable)] {
        let mut decoder = PolledDecoder::default();
        let events = json!([event(128, whole(1)), event(4096, useless), event(4096, whole(5))]);
        let changes = changes_of(&mut decoder, &events);
        assert_eq!(changes[1], expected);
        let PolledChange::Events(events) = &changes[2] else { panic!("{changes:?}") };
        assert_eq!((&events[0], events.len()), (&KvEvent::Cleared, 2));
    }
}

#[test]
fn blocks_whose_tokens_do_not_say_all_end_the_run() {
    let image = with(block(8, &[3, 4]), &json!({"mm_keys": [{"hash": "ab", "start_offset": 0}]}));
    let none = with(block(7, &[1, 2]), &json!({"mm_keys": []}));
    assert_eq!(
        only_stored(&store(&json!(null), &[none, image, block(9, &[5, 6])])).hashes,
        [EngineHash::Int(7)]
    );
    let tuned = json!({"block_hash": 7, "tokens": [{"token_id": 1, "token_extra_id": 9}]});
    assert_eq!(change(&store(&json!(null), &[tuned])), PolledChange::Ignored);
}

#[test]
fn adapters_and_salts_keep_their_blocks_apart() {
    let cases = [
        (json!({"lora_id": 3}), None, Some("lora id 3")),
        (json!({"lora_id": null, "cache_salt": null}), None, None),
        (json!({"cache_salt": "tenant"}), Some("tenant"), None),
        (json!({"cache_salt": "", "cache_salt_id": 5}), Some("cache salt id 5"), None),
    ];
    for (extra, salt, adapter) in cases {
        let stored = only_stored(&store(&json!(null), &[with(block(7, &[1]), &extra)]));
        assert_eq!((stored.salt.as_deref(), stored.adapter.as_deref()), (salt, adapter), "{extra}");
    }
}

#[test]
fn unknown_kinds_are_stepped_over_and_broken_ones_cost_themselves() {
    assert_eq!(change(&json!({"type": "defragmented", "blocks": 3})), PolledChange::Ignored);
    let broken = [
        json!({"type": "stored"}),
        json!({"type": "stored", "blocks": 3}),
        json!({"type": "stored", "blocks": [{"block_hash": 1}]}),
        json!({"type": "stored", "blocks": [{"block_hash": 1, "tokens": [-1]}]}),
        json!({"type": "stored", "blocks": [{"block_hash": 1, "tokens": [u64::MAX]}]}),
        json!({"type": "stored", "blocks": [{"block_hash": 1, "tokens": [{"token_extra_id": 0}]}]}),
        json!({"type": "removed", "block_hashes": [{}]}),
        json!({"type": "updated", "cache_level": {"old_value": 0, "new_value": 1}}),
        json!({"type": 3}),
        json!({}),
        json!(null),
    ];
    for data in broken {
        assert_eq!(change(&data), PolledChange::Undecodable, "{data}");
    }
}

#[test]
fn what_is_no_list_is_none() {
    for answer in ["", "{}", "null", "[1,", "[{]"] {
        assert!(list(answer.as_bytes()).is_none(), "{answer}");
    }
    assert!(list(&[0xff]).is_none());
    assert!(list(b" [ ] ").unwrap().len() == 0);
}
