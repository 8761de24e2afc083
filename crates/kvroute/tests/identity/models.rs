//! Model folders that are the demo's but for one thing, and fleets whose engines have them.

use std::path::Path;
use std::sync::Arc;

use kvroute_router::config::{PoolConfig, TokenizerSource};
use kvroute_server::Server;
use kvroute_sim::{SimConfig, SimEngine, TokenizerEncoder};
use kvroute_testkit::{Client, Fleet, demo_tokenizer_folder, server_config};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A copy of the demo's folder with changes to `tokenizer.json` and `tokenizer_config.json`.
pub(crate) fn changed(change: impl FnOnce(&mut Value, &mut Value)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(demo_tokenizer_folder().join(name)).unwrap()).unwrap()
    };
    let (mut tokenizer, mut config) = (read("tokenizer.json"), read("tokenizer_config.json"));
    change(&mut tokenizer, &mut config);
    for (name, value) in [("tokenizer.json", tokenizer), ("tokenizer_config.json", config)] {
        std::fs::write(folder.path().join(name), serde_json::to_vec(&value).unwrap()).unwrap();
    }
    folder
}

/// Another chat template.
pub(crate) fn other_template() -> TempDir {
    changed(|_, config| {
        config["chat_template"] = json!(
            "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}assistant:"
        );
    })
}

/// The demo's template, which fails on one message.
pub(crate) fn template_that_fails_on(text: &str) -> TempDir {
    changed(|_, config| {
        let template = config["chat_template"].as_str().unwrap();
        let fails = format!(
            "{{%- if messages[0].content == '{text}' %}}{{{{ raise_exception('not this') }}}}{{%- endif %}}"
        );
        config["chat_template"] = json!(format!("{fails}{template}"));
    })
}

/// A tokenizer that begins every text with a token of its own.
pub(crate) fn first_token() -> TempDir {
    changed(|tokenizer, _| {
        let (token, sequence) = (
            json!({"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}),
            json!({"Sequence": {"id": "A", "type_id": 0}}),
        );
        tokenizer["post_processor"] = json!({
            "type": "TemplateProcessing",
            "single": [token, sequence],
            "pair": [token, sequence, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [2041], "tokens": ["<|endoftext|>"]}},
        });
    })
}

/// The same words under other ids: every prompt keeps its length.
pub(crate) fn other_ids() -> TempDir {
    changed(|tokenizer, _| {
        let vocabulary = tokenizer["model"]["vocab"].as_object_mut().unwrap();
        let size = vocabulary.len() as u64;
        for id in vocabulary.values_mut() {
            *id = json!((id.as_u64().unwrap() + 1) % size);
        }
    })
}

/// An engine that serves a model of this folder.
pub(crate) async fn engine(config: SimConfig, folder: &Path) -> SimEngine {
    SimEngine::start(config, Arc::new(TokenizerEncoder::load(folder).unwrap())).await.unwrap()
}

/// A router with a folder of its own in front of engines with theirs.
pub(crate) async fn fleet(
    engines: &[(SimConfig, &Path)],
    router: &Path,
    change: impl FnOnce(&mut PoolConfig),
) -> Fleet {
    let mut started = Vec::new();
    for (config, folder) in engines {
        started.push(engine(config.clone(), folder).await);
    }
    let urls: Vec<_> = started.iter().map(SimEngine::url).collect();
    let mut config = server_config(&urls, "kv");
    config.router.pools[0].tokenizer = TokenizerSource::Path(router.to_owned());
    change(&mut config.router.pools[0]);
    let server = Server::start(config).await.unwrap();
    let fleet = Fleet { engines: started, server, client: Client::default() };
    let is_ready = |worker: &Value| worker["state"] == "ready";
    let all_ready = |list: Value| list.as_array().unwrap().iter().all(is_ready);
    fleet.client.until(&fleet.admin("/api/workers"), |answer| all_ready(answer.json())).await;
    fleet
}
