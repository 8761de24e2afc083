//! Which blocks an image belongs to, and how it is told: against what vLLM's own code makes of the same layouts.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use kvroute_core::{BlockExtras, BlockSize, ItemId, KvEvent, PromptItem};
use kvroute_engine::events::EventDecoder;
use rmp::encode;
use serde_json::Value;

/// Layouts, one a line.
const LAYOUTS: &str = include_str!("../../../fixtures/vllm/image_keys.jsonl");

fn items(layout: &Value) -> Vec<PromptItem> {
    let number = |value: &Value| value.as_u64().unwrap() as usize;
    let item = |item: &Value| PromptItem {
        id: ItemId::new(item[0].as_str().unwrap()),
        offset: number(&item[1]),
        length: number(&item[2]),
    };
    layout["items"].as_array().unwrap().iter().map(item).collect()
}

fn pack(to: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => encode::write_nil(to).unwrap(),
        Value::Number(number) => drop(encode::write_sint(to, number.as_i64().unwrap()).unwrap()),
        Value::String(text) => encode::write_str(to, text).unwrap(),
        Value::Array(list) => {
            encode::write_array_len(to, list.len() as u32).unwrap();
            list.iter().for_each(|entry| pack(to, entry));
        }
        other => panic!("no layout has {other}"),
    }
}

/// The event with which the engine tells of all blocks of a layout.
fn event(layout: &Value, size: u64, blocks: u64) -> Vec<u8> {
    let numbers = |end: u64| Value::from((0..end).collect::<Vec<_>>());
    let fields = [
        "BlockStored".into(),
        numbers(blocks),
        Value::Null,
        numbers(blocks * size),
        size.into(),
        Value::Null,
        "GPU".into(),
        Value::Null,
        layout["extra_keys"].clone(),
    ];
    let mut payload = Vec::new();
    pack(&mut payload, &Value::from(vec![Value::from(0), Value::from(vec![Value::from(fields.to_vec())])]));
    payload
}

#[test]
fn a_prompt_and_its_events_agree_on_every_block() {
    let layouts: Vec<Value> = LAYOUTS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut told = 0;
    for layout in &layouts {
        let size = layout["block_size"].as_u64().unwrap();
        let blocks = layout["tokens"].as_u64().unwrap() / size;
        let of_prompt =
            BlockExtras::of_items(&items(layout), BlockSize::new(size as u32).unwrap(), blocks as usize);
        if blocks == 0 {
            assert!(of_prompt.is_empty());
            continue;
        }
        let events = EventDecoder::default().decode(&event(layout, size, blocks)).events;
        let [KvEvent::Stored(stored)] = &events[..] else { panic!("{events:?} of {layout}") };
        assert_eq!(stored.extras, of_prompt, "{layout}");
        told += usize::from(!of_prompt.is_empty());
    }
    assert!(layouts.len() == 60 && told > 50, "{told} of {}", layouts.len());
}
