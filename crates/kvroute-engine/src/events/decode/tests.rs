use kvroute_core::{BlockExtras, EngineHash, ExtraKey, ItemId};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// MessagePack of a JSON value, integers in their shortest form; `{"$bin": [..]}` is a byte string.
fn pack(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => rmp::encode::write_nil(out).unwrap(),
        Value::Bool(flag) => rmp::encode::write_bool(out, *flag).unwrap(),
        Value::Number(number) => {
            if let Some(unsigned) = number.as_u64() {
                rmp::encode::write_uint(out, unsigned).unwrap();
            } else if let Some(signed) = number.as_i64() {
                rmp::encode::write_sint(out, signed).unwrap();
            } else {
                rmp::encode::write_f64(out, number.as_f64().unwrap()).unwrap();
            }
        }
        Value::String(text) => rmp::encode::write_str(out, text).unwrap(),
        Value::Array(items) => {
            rmp::encode::write_array_len(out, items.len() as u32).unwrap();
            items.iter().for_each(|item| pack(item, out));
        }
        Value::Object(fields) => {
            if let Some(Value::Array(bytes)) = fields.get("$bin") {
                let bytes: Vec<u8> = bytes.iter().map(|byte| byte.as_u64().unwrap() as u8).collect();
                rmp::encode::write_bin(out, &bytes).unwrap();
                return;
            }
            rmp::encode::write_map_len(out, fields.len() as u32).unwrap();
            for (name, field) in fields {
                rmp::encode::write_str(out, name).unwrap();
                pack(field, out);
            }
        }
    }
}

fn packed(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    pack(value, &mut out);
    out
}

fn decode(payload: &Value) -> EventBatch {
    EventDecoder::default().decode(&packed(payload))
}

fn decode_events(events: &Value) -> EventBatch {
    decode(&json!([1.5, events, 0]))
}

fn only_stored(event: &Value) -> StoredBlocks {
    let batch = decode_events(&json!([event]));
    match &batch.events[..] {
        [KvEvent::Stored(stored)] => stored.clone(),
        _ => panic!("{batch:?}"),
    }
}

fn stored(extra: &Value) -> Value {
    let mut event = json!({
        "type": "BlockStored", "block_hashes": [7, 8], "parent_block_hash": null, "token_ids": [1, 2, 3, 4],
        "block_size": 2, "lora_id": null, "medium": "GPU",
    });
    event.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    event
}

fn two_blocks() -> StoredBlocks {
    StoredBlocks {
        hashes: vec![EngineHash::Int(7), EngineHash::Int(8)],
        parent: None,
        tokens: vec![1, 2, 3, 4],
        block_size: BlockSize::new(2).unwrap(),
        tier: Tier::Device,
        salt: None,
        adapter: None,
        extras: BlockExtras::default(),
    }
}

#[test]
fn maps_and_arrays_of_every_release_say_the_same() {
    let forms = [
        stored(&json!({})),
        stored(&json!({"lora_name": null, "extra_keys": [null, null], "group_idx": 0,
            "kv_cache_spec_kind": "full_attention", "kv_cache_spec_sliding_window": null, "locality": "LOCAL",
            "ownership": "x", "session_id": "s", "lookahead_token_ids": [9, [9]]})),
        json!(["BlockStored", [7, 8], null, [1, 2, 3, 4], 2, null, "GPU"]),
        json!(["BlockStored", [7, 8], null, [1, 2, 3, 4], 2]),
        json!(["BlockStored", [7, 8], null, [1, 2, 3, 4], 2, null, "GPU", null, [null, null], 0]),
        json!(["BlockStored", [7, 8], null, [1, 2, 3, 4], 2, null, "GPU", null, null, 0, "full_attention", null,
            "LOCAL", "owner", "session", {"later": 1}]),
    ];
    for form in forms {
        assert_eq!(only_stored(&form), two_blocks(), "{form}");
    }
}

#[test]
fn the_name_need_not_come_first() {
    let event = json!({"block_hashes": [1], "medium": "CPU", "type": "BlockRemoved"});
    let removed = KvEvent::Removed { hashes: vec![EngineHash::Int(1)], tier: Tier::Host };
    assert_eq!(decode_events(&json!([event])).events, [removed]);
}

#[test]
fn hashes_may_be_unsigned_signed_or_raw() {
    let digest: Vec<u8> = (0..32).collect();
    let event = stored(&json!({
        "block_hashes": [u64::MAX, {"$bin": digest}], "parent_block_hash": -2,
    }));
    let blocks = only_stored(&event);
    let digest = EngineHash::Digest(std::array::from_fn(|index| index as u8));
    assert_eq!(blocks.hashes, [EngineHash::Int(u64::MAX), digest]);
    assert_eq!(blocks.parent, Some(EngineHash::Int(u64::MAX - 1)));
    for bytes in [vec![], vec![0; 33]] {
        let batch = decode_events(&json!([stored(&json!({"block_hashes": [1, {"$bin": bytes}]}))]));
        assert_eq!((batch.events.len(), batch.undecodable), (0, 1));
    }
}

#[test]
fn salt_and_adapter_come_from_the_first_block() {
    let cases = [
        (json!({"extra_keys": [["tenant"], null]}), Some("tenant"), None),
        (json!({"extra_keys": [["a", "tenant"], ["a"]], "lora_name": "a"}), Some("tenant"), Some("a")),
        (json!({"extra_keys": [["a"], ["a"]], "lora_name": "a"}), None, Some("a")),
        (json!({"extra_keys": [[["image", 3], {"$bin": [1]}], ["late"]]}), None, None),
        (json!({"extra_keys": [null, ["late"]]}), None, None),
        (json!({"extra_keys": [[""], null]}), None, None),
        (json!({"extra_keys": [["x", "y"], null]}), Some("x\0y"), None),
        (json!({"cache_salt": "tenant"}), Some("tenant"), None),
        (json!({"cache_salt": "", "lora_name": ""}), None, None),
        (json!({"lora_id": 3}), None, Some("lora id 3")),
    ];
    for (extra, salt, adapter) in cases {
        let blocks = only_stored(&stored(&extra));
        assert_eq!((blocks.salt.as_deref(), blocks.adapter.as_deref()), (salt, adapter), "{extra}");
    }
}

#[test]
fn images_stand_with_their_blocks_and_what_is_not_understood_stands_there_too() {
    let item = |name: &str, offset| ExtraKey::Item { offset, id: ItemId::new(name) };
    let unknown = |json: &Value| ExtraKey::unknown(&packed(json));
    let digest = json!({"$bin": [1, 2]});
    let cases = [
        (
            json!([[["cat", 1]], [["cat", -1], ["dog", 0]]]),
            vec![(0, item("cat", 1)), (1, item("cat", -1)), (1, item("dog", 0))],
        ),
        (json!([null, [["mm", "cat", 1]]]), vec![(1, item("cat", 1))]),
        (json!([["tenant", ["cat", 0]], [digest]]), vec![(0, item("cat", 0)), (1, unknown(&digest))]),
        (json!([[["cat", 0.5]], [7]]), vec![(0, unknown(&json!(["cat", 0.5]))), (1, unknown(&json!(7)))]),
        (
            json!([[["cat", "dog"]], [{"a": [1]}]]),
            vec![(0, unknown(&json!(["cat", "dog"]))), (1, unknown(&json!({"a": [1]})))],
        ),
        (json!([null, null, [["behind", 0]]]), vec![]),
    ];
    for (keys, expected) in cases {
        let blocks = only_stored(&stored(&json!({"extra_keys": keys})));
        assert_eq!(blocks.extras, BlockExtras::new(expected), "{keys}");
    }
    let tagged = only_stored(&stored(&json!({
        "extra_keys": [[["lora", "a", "/path"], ["cache_salt", "tenant"]], [["lora", "a", "/path"]]], "lora_name": "a",
    })));
    assert_eq!((tagged.salt.as_deref(), tagged.extras), (Some("tenant"), BlockExtras::default()));
}

#[test]
fn media_become_tiers_and_unknown_ones_are_never_device() {
    let tier = |medium: &str| only_stored(&stored(&json!({"medium": medium}))).tier;
    assert_eq!([tier("GPU"), tier("gpu")], [Tier::Device; 2]);
    assert_eq!([tier("CPU"), tier("CPU_PINNED")], [Tier::Host; 2]);
    assert_eq!(["STORAGE", "DISK", "FS", "OBJ", "EXTERNAL", "QUANTUM"].map(tier), [Tier::Disk; 6]);
    assert_eq!(only_stored(&stored(&json!({"medium": null}))).tier, Tier::Device);
}

#[test]
fn only_prefix_groups_of_this_worker_count_and_removals_follow_what_stores_said() {
    let group = |index: u32, kind: &str| stored(&json!({"group_idx": index, "kv_cache_spec_kind": kind}));
    let removal = |index: u32| json!({"type": "BlockRemoved", "block_hashes": [7], "medium": "GPU", "group_idx": index});
    let cases = [
        (json!([group(0, "sliding_window"), removal(0)]), 0, 2),
        (json!([group(1, "full_attention"), removal(1)]), 2, 0),
        (json!([group(1, "mla_attention"), group(2, "sink_full_attention")]), 2, 0),
        (json!([group(0, "mamba"), group(3, "a_new_kind"), group(1, "cross_attention")]), 0, 3),
        (json!([group(0, "unknown"), group(1, "unknown")]), 1, 1),
        (json!([removal(0), removal(1)]), 1, 1),
        (json!([stored(&json!({"group_idx": 1})), stored(&json!({"group_idx": 0}))]), 1, 1),
        (json!([stored(&json!({"kv_cache_spec_kind": "mamba"}))]), 0, 1),
        (json!([stored(&json!({"locality": "REMOTE"})), stored(&json!({"locality": "local"}))]), 1, 1),
        (json!([["BlockRemoved", [7], "GPU", 0, "REMOTE"], ["BlockRemoved", [7], "GPU", 0]]), 1, 1),
    ];
    for (events, read, ignored) in cases {
        let batch = decode_events(&events);
        assert_eq!((batch.events.len(), batch.ignored, batch.undecodable), (read, ignored, 0), "{events}");
    }
}

#[test]
fn bigram_pairs_stand_for_their_first_token() {
    let event = stored(&json!({"token_ids": [[1, 2], [2, 3], [3, 4], [4, 5]]}));
    assert_eq!(only_stored(&event).tokens, [1, 2, 3, 4]);
}

#[test]
fn an_incomplete_last_block_is_left_out() {
    let blocks = only_stored(&stored(&json!({"token_ids": [1, 2, 3]})));
    assert_eq!((blocks.hashes.len(), &blocks.tokens[..]), (1, &[1, 2][..]));
    let batch = decode_events(&json!([stored(&json!({"token_ids": [1]}))]));
    assert_eq!((batch.events.len(), batch.ignored), (0, 1));
}

/// A store of one block of this many tokens.
fn page(hash: u64, size: u32, extra: &Value) -> Value {
    let mut event = stored(&json!({
        "block_hashes": [hash], "token_ids": (0..size).collect::<Vec<_>>(), "block_size": size,
    }));
    event.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    event
}

fn sizes(batch: &EventBatch) -> Vec<Option<u32>> {
    let size = |event: &KvEvent| match event {
        KvEvent::Stored(stored) => Some(stored.block_size.get()),
        _ => None,
    };
    batch.events.iter().map(size).collect()
}

#[test]
fn a_short_page_that_says_its_own_size_is_left_out() {
    let batch =
        decode_events(&json!([page(1, 4, &json!({})), page(2, 3, &json!({})), page(3, 4, &json!({}))]));
    assert_eq!((sizes(&batch), batch.ignored), (vec![Some(4), Some(4)], 1));
}

#[test]
fn a_short_page_that_came_first_is_cleared_by_the_first_whole_one() {
    let mut decoder = EventDecoder::default();
    let batch = decoder.decode(&packed(&json!([1.5, [page(1, 3, &json!({})), page(2, 4, &json!({}))]])));
    assert_eq!(sizes(&batch), [Some(3), None, Some(4)]);
    assert_eq!(batch.events[1], KvEvent::Cleared);
    let batch = decoder.decode(&packed(&json!([1.5, [page(3, 3, &json!({})), page(4, 4, &json!({}))]])));
    assert_eq!((sizes(&batch), batch.ignored), (vec![Some(4)], 1));
}

#[test]
fn a_store_of_another_size_is_rejected_and_costs_itself_only() {
    let mut decoder = EventDecoder::default();
    let whole = stored(&json!({}));
    let batch = decoder.decode(&packed(&json!([1.5, [whole, page(9, 4, &json!({})), whole]])));
    assert_eq!((sizes(&batch), batch.rejected), (vec![Some(2), Some(2)], 1));
    assert!(decoder.sizes().contradiction().is_some());
    decoder.restart();
    let batch = decoder.decode(&packed(&json!([1.5, [page(9, 4, &json!({}))]])));
    assert_eq!((sizes(&batch), batch.rejected), (vec![Some(4)], 0));
}

#[test]
fn an_announced_clear_ends_the_old_size_within_its_batch() {
    let mut decoder = EventDecoder::default();
    let clear = json!({"type": "AllBlocksCleared"});
    let batch = decoder.decode(&packed(&json!([1.5, [stored(&json!({})), clear, page(9, 4, &json!({}))]])));
    assert_eq!((sizes(&batch), batch.rejected), (vec![Some(2), None, None, Some(4)], 0));
}

#[test]
fn larger_blocks_on_a_lower_tier_are_left_out_and_clear_nothing() {
    let offloaded = json!({"medium": "CPU"});
    let batch =
        decode_events(&json!([page(1, 2, &json!({})), page(2, 8, &offloaded), page(3, 2, &offloaded)]));
    assert_eq!((sizes(&batch), batch.ignored), (vec![Some(2), Some(2)], 1));
    assert!(matches!(&batch.events[1], KvEvent::Stored(stored) if stored.tier == Tier::Host));
}

#[test]
fn copies_that_are_named_by_their_hash_alone_are_left_out() {
    for size in [0, 16] {
        let event = stored(&json!({"token_ids": [], "block_size": size, "medium": "CPU"}));
        let batch = decode_events(&json!([event]));
        assert_eq!((batch.events.len(), batch.ignored, batch.undecodable), (0, 1, 0), "{size}");
    }
}

#[test]
fn who_owns_a_tier_does_not_matter() {
    let owned = json!({"medium": "STORAGE", "ownership": "tier-1"});
    assert_eq!(only_stored(&stored(&owned)), StoredBlocks { tier: Tier::Disk, ..two_blocks() });
    let removal =
        json!({"type": "BlockRemoved", "block_hashes": [7], "medium": "STORAGE", "ownership": "tier-1"});
    let removed = KvEvent::Removed { hashes: vec![EngineHash::Int(7)], tier: Tier::Disk };
    assert_eq!(
        decode_events(&json!([removal, {"type": "AllBlocksCleared", "ownership": "tier-1"}])).events,
        [removed, KvEvent::Cleared]
    );
}

#[test]
fn tokens_ahead_of_a_block_are_no_part_of_it() {
    assert_eq!(only_stored(&stored(&json!({"lookahead_token_ids": [5, 6]}))), two_blocks());
}

#[test]
fn a_clear_behind_a_clear_says_nothing() {
    let clear = json!({"type": "AllBlocksCleared"});
    let events = vec![clear.clone(); 1000];
    let batch = decode_events(&json!(events));
    assert_eq!((batch.events, batch.ignored), (vec![KvEvent::Cleared], 999));
    let batch = decode_events(&json!([clear, stored(&json!({})), clear]));
    assert_eq!((batch.events.len(), batch.ignored), (3, 0));
}

#[test]
fn a_removal_may_name_any_number_of_blocks_in_either_form() {
    let hashes: Vec<u64> = (0..500).collect();
    let removed = KvEvent::Removed {
        hashes: hashes.iter().map(|hash| EngineHash::Int(*hash)).collect(),
        tier: Tier::Device,
    };
    for event in
        [json!({"type": "BlockRemoved", "block_hashes": hashes}), json!(["BlockRemoved", hashes, "GPU"])]
    {
        assert_eq!(decode_events(&json!([event])).events, std::slice::from_ref(&removed));
    }
}

#[test]
fn an_adapter_that_has_only_a_number_keeps_its_orphans_apart_from_the_base_model() {
    let event = stored(&json!({"parent_block_hash": 99, "lora_id": 3, "lora_name": null}));
    let blocks = only_stored(&event);
    assert_eq!((blocks.parent, blocks.adapter.as_deref()), (Some(EngineHash::Int(99)), Some("lora id 3")));
}

#[test]
fn one_bad_event_costs_itself_only() {
    let bad = [
        stored(&json!({"token_ids": [1, 2, 3, 4, 5]})),
        stored(&json!({"token_ids": [1, 2, 3, -4]})),
        stored(&json!({"token_ids": [1, 2, 3, u64::from(u32::MAX) + 1]})),
        stored(&json!({"token_ids": "text"})),
        stored(&json!({"block_size": 0})),
        stored(&json!({"block_hashes": null})),
        stored(&json!({"extra_keys": ["text"]})),
        json!({"type": "BlockRemoved"}),
        json!({"no": "type"}),
        json!(["BlockStored", [7, 8]]),
        json!([]),
        json!(17),
        json!(null),
        json!("BlockStored"),
    ];
    for event in bad {
        let good = json!({"type": "AllBlocksCleared"});
        let batch = decode_events(&json!([stored(&json!({})), event, ["Unknown", {"a": [1]}], good]));
        assert_eq!(batch.events, [KvEvent::Stored(two_blocks()), KvEvent::Cleared], "{event}");
        assert_eq!((batch.undecodable, batch.ignored), (1, 1), "{event}");
        assert_eq!(batch.dp_rank, Some(DpRank::new(0)), "{event}");
    }
}

#[test]
fn a_cut_payload_keeps_what_came_before_the_cut() {
    let payload = packed(&json!([1.5, [{"type": "AllBlocksCleared"}, stored(&json!({}))], 3]));
    let batch = EventDecoder::default().decode(&payload[..payload.len() - 10]);
    assert_eq!((batch.events, batch.undecodable), (vec![KvEvent::Cleared], 1));
}

#[test]
fn what_is_no_batch_counts_as_one_unreadable_event() {
    for payload in [json!(null), json!([]), json!([1.5]), json!({"ts": 1}), json!([1.5, 3, 0])] {
        let batch = decode(&payload);
        assert_eq!((batch.events.len(), batch.undecodable), (0, 1), "{payload}");
    }
    assert_eq!(EventDecoder::default().decode(&[]).undecodable, 1);
}

#[test]
fn the_rank_is_optional() {
    for (payload, rank) in
        [(json!([1, [], 3]), Some(3)), (json!([1, []]), None), (json!([1, [], null, 4]), None)]
    {
        let batch = decode(&payload);
        assert_eq!((batch.dp_rank.map(DpRank::get), batch.undecodable), (rank, 0), "{payload}");
    }
}

#[test]
fn the_time_is_read_where_it_is_one() {
    for (time, published) in
        [(json!(1.5), Some(1500)), (json!(2), Some(2000)), (json!(-1.0), None), (json!("x"), None)]
    {
        let batch = decode(&json!([time, []]));
        assert_eq!((batch.published, batch.undecodable), (published.map(Duration::from_millis), 0), "{time}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(payload in proptest::collection::vec(any::<u8>(), 0..300)) {
        EventDecoder::default().decode(&payload);
    }

    #[test]
    fn a_damaged_batch_never_panics_and_never_makes_up_tokens(
        position in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
    ) {
        let events = json!([stored(&json!({"extra_keys": [["s"], null]})), ["BlockRemoved", [7], "GPU", 0]]);
        let mut payload = packed(&json!([1.5, events, 0]));
        let position = position.index(payload.len());
        payload[position] = byte;
        payload.truncate(1 + cut.index(payload.len()));
        for event in EventDecoder::default().decode(&payload).events {
            if let KvEvent::Stored(blocks) = event {
                prop_assert_eq!(blocks.tokens.len(), blocks.hashes.len() * blocks.block_size.get() as usize);
            }
        }
    }
}
