//! Engines other than vLLM: recorded exchanges are sent to each simulation, and its answers must have the same keys in
//! the same order with values of the same kind. What is a selection of hundreds of fields must be a part of them.

mod llamacpp;
mod sglang;
mod trtllm;

use kvroute_core::BlockSize;
use kvroute_sim::{Flavour, SimConfig};
use serde_json::Value;

use crate::shapes::{parsed, replay_all, shape, shapes};

/// An engine of a flavour as it was recorded.
fn config(flavour: Flavour, kv_blocks: u32) -> SimConfig {
    SimConfig {
        model: String::from("tiny-qwen3"),
        flavour,
        block_size: BlockSize::new(16).unwrap(),
        kv_blocks,
        ..SimConfig::default()
    }
}

/// Compares every exchange of a recording.
async fn compare(config: SimConfig, compressed: &[u8], selections: &[&str]) {
    replay_all(config, compressed, |name, exchange, body| {
        let recorded = exchange["response"].as_str().unwrap();
        if !selections.contains(&name) {
            assert_eq!(shapes(body), shapes(recorded), "{name}: {body}");
            return;
        }
        // A long body was cut when it was recorded.
        is_part_of(&shape("", &parsed(body).unwrap()), recorded, parsed(recorded).as_ref(), name);
    })
    .await;
}

/// What stood behind the place where a long recording was cut.
const CUT_OFF: [&str; 1] = ["version"];

/// Every key of a shape stands in the recording, with the same kind of value where it can be read.
fn is_part_of(part: &Value, recorded: &str, whole: Option<&Value>, name: &str) {
    let whole = whole.map(|whole| shape("", whole));
    for field in part.as_array().unwrap() {
        let key = field[0].as_str().unwrap();
        if whole.is_none() && CUT_OFF.contains(&key) {
            continue;
        }
        assert!(recorded.contains(&format!("\"{key}\":")), "{name} has no {key}");
        let fields = whole.as_ref().and_then(Value::as_array).into_iter().flatten();
        if let Some(known) = fields.into_iter().find(|known| known[0] == field[0]) {
            let is_list = |value: &Value| value.is_array();
            assert_eq!(is_list(&known[1]), is_list(&field[1]), "{name}: {key}");
        }
    }
}
