//! Keys of a pool: their defaults, what they reach, and what is wrong with them.

use std::time::Duration;

use kvroute_core::Tokens;
use kvroute_router::PoolConfig;
use kvroute_router::config::{
    BusyThreshold, DecisionsConfig, IndexConfig, IndexSource, QueueConfig, WorkerConfig,
};
use kvroute_select::{CostWeights, PolicyOptions, QueueOrder};

use super::super::settings::{self, ROWS};
use super::{WORKER, config, load_all, pool, problems};

/// By the text of the whole pool, so that a key of later days is compared too.
#[test]
fn the_defaults_of_the_table_are_those_of_the_code() {
    let code = PoolConfig::of_workers(vec![WorkerConfig::at("http://10.0.0.1:8000")]);
    assert_eq!(format!("{:#?}", pool(&config(WORKER))), format!("{code:#?}"));
}

#[test]
fn every_weight_of_the_cost_is_a_key_of_the_same_name() {
    let mut weights = CostWeights::default();
    let keys = weights.by_name().map(|(name, default)| (format!("pool.kv.{name}"), *default));
    for (key, default) in &keys {
        let row = settings::row(key).unwrap_or_else(|| panic!("no key {key}"));
        assert_eq!(row.default.unwrap().parse(), Ok(*default), "{key}");
    }
    let of_the_table = ROWS.iter().filter(|row| row.key.starts_with("pool.kv.")).count();
    assert_eq!(of_the_table, keys.len());
}

#[test]
fn the_keys_of_the_selection_reach_the_pool() {
    let config = config(
        r#"
        [[pool]]
        policy = "sticky"
        shadow = ["kv", "random"]
        engine_load = "5s"
        decisions = { sample = 0.5, candidates = 3 }
        [pool.sticky]
        ttl = "5m"
        mode = "hard"
        [pool.queue]
        limit = 0
        timeout = "1s"
        threshold = 4096
        order = "shortest-prefill"
        [[pool.worker]]
        url = "http://a"
        "#,
    );
    let pool = pool(&config);
    assert_eq!(pool.shadow, ["kv", "random"]);
    assert_eq!(pool.engine_load, Some(Duration::from_secs(5)));
    assert_eq!(pool.decisions, DecisionsConfig { sample: 0.5, candidates: 3 });
    let options = PolicyOptions { session_ttl: Duration::from_secs(300), hard_sessions: true };
    assert_eq!(pool.policy_options, options);
    let queue = QueueConfig {
        limit: 0,
        timeout: Duration::from_secs(1),
        threshold: BusyThreshold::Tokens(Tokens::new(4096)),
        order: QueueOrder::ShortestPrefill,
    };
    assert_eq!(pool.queue, queue);
}

#[test]
fn the_index_keys_reach_the_pool() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("index.snap");
    let text = format!(
        "{WORKER}[pool.index]\nbytes = \"64MiB\"\nsource = \"remembered\"\nttl = \"5s\"\nsnapshot = {file:?}\n"
    );
    let config = config(&text);
    let expected = IndexConfig {
        bytes: 64 << 20,
        source: IndexSource::Remembered,
        ttl: Duration::from_secs(5),
        snapshot: Some(file),
    };
    assert_eq!(pool(&config).index, expected);
}

#[test]
fn a_snapshot_must_have_a_folder_and_one_owner() {
    let error = load_all(&format!("{WORKER}[pool.index]\nsnapshot = \"/no/such/folder/index\"\n"), &[], &[]);
    let text = error.unwrap_err().to_string();
    assert!(text.contains("pool[0].index.snapshot") && text.contains("which is no folder"), "{text}");
    let pool = |port: u16| {
        format!(
            "[[pool]]\nindex = {{ snapshot = \"twin.snap\" }}\n[[pool.worker]]\nurl = \"http://h:{port}\"\n"
        )
    };
    let text = load_all(&(pool(1) + &pool(2)), &[], &[]).unwrap_err().to_string();
    assert!(text.contains("pool[0]") && text.contains("pool[1]") && text.contains("its own file"), "{text}");
}

#[test]
fn an_index_too_small_to_work_is_refused() {
    let text = problems("[[pool]]\nindex = { bytes = \"1MiB\" }\n");
    assert!(
        text.starts_with("pool[0].index.bytes is \"1MiB\"; expected a size")
            && text.contains("at least 16MiB")
    );
}

#[test]
fn direct_without_anybody_who_may_name_a_worker_is_refused() {
    let direct = "[[pool]]\npolicy = \"direct\"\n[[pool.worker]]\nurl = \"http://a\"\n";
    assert_eq!(
        problems(direct),
        "pool[0].policy is \"direct\", which sends a request only where a trusted caller says, and server.trusted \
         names no caller: every request would be refused; set server.trusted to their networks or choose another policy"
    );
    assert_eq!(pool(&config(&format!("[server]\ntrusted = [\"::1\"]\n{direct}"))).policy, "direct");
}

#[test]
fn lists_are_refused_by_the_part_that_is_wrong() {
    let trusted = |item: &str| problems(&format!("[server]\ntrusted = [\"10.0.0.0/8\", {item}]\n"));
    assert!(
        trusted("\"localhost\"").contains("and \"localhost\" is neither (file FILE)"),
        "{}",
        trusted("\"localhost\"")
    );
    assert!(
        trusted("\"10.1.2.3/16\"").contains(
            "expected \"10.1.0.0/16\" for the network or \"10.1.2.3\" for the address, in place of \"10.1.2.3/16\""
        ),
        "{}",
        trusted("\"10.1.2.3/16\"")
    );
    let shadow = |list: &str| problems(&format!("[[pool]]\nshadow = {list}\n"));
    let misspelt = shadow("[\"random\", \"round-robbin\"]");
    assert!(
        misspelt.contains("\"round-robbin\" is none") && misspelt.contains("mean \"round-robin\"?"),
        "{misspelt}"
    );
    let twice = shadow("[\"random\", \"random\"]");
    assert!(twice.contains("expected random only once in the list (file FILE)"), "{twice}");
}

#[test]
fn keys_below_an_inline_table_are_checked_like_any_other() {
    assert_eq!(
        problems("[[pool]]\ndecisions = { sample = 1.5 }\n"),
        "pool[0].decisions.sample is 1.5; expected a number between 0 and 1 (file FILE)"
    );
    assert_eq!(
        problems("[[pool]]\nqueue = { limits = 5 }\n"),
        "unknown key \"pool[0].queue.limits\": did you mean \"limit\"?"
    );
    assert_eq!(
        problems("[[pool]]\ndecisions = true\n"),
        "pool[0].decisions is of type boolean; write [pool.decisions] with its keys below"
    );
}

#[test]
fn workers_that_are_probably_one_engine_are_warned_of_across_pools() {
    let pool = |model: &str, urls: &[&str]| {
        let workers: String = urls.iter().map(|url| format!("[[pool.worker]]\nurl = \"{url}\"\n")).collect();
        format!("[[pool]]\nmodel = \"{model}\"\n{workers}")
    };
    let text = [
        pool("a", &["http://localhost:8000", "http://10.0.0.1:8000"]),
        pool("b", &["http://127.0.0.1:8000", "http://10.0.0.2:8000"]),
    ]
    .concat();
    let warnings = load_all(&text, &[], &[]).unwrap().warnings;
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(
        warning.starts_with("workers localhost:8000 and 127.0.0.1:8000 are probably one engine"),
        "{warning}"
    );
}
