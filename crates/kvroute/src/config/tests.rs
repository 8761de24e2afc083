use std::io::Write;
use std::time::Duration;

use clap::{Command, FromArgMatches};
use kvroute_core::{BlockSize, Tokens, WorkerRole};
use kvroute_metrics::MetricsOptions;
use kvroute_router::PoolConfig;
use kvroute_router::config::{
    BusyThreshold, CountMode, DecisionsConfig, EventEndpoint, OnMismatch, OnNoPrefill, TokenizerSource,
    WorkerConfig,
};
use kvroute_select::{CostWeights, policy};
use kvroute_zmtp::Endpoint;
use tempfile::NamedTempFile;

use super::settings::ROWS;
use super::*;

mod discovery;
mod history;
mod pool;
mod security;
mod telemetry;

const WORKER: &str = "[[pool]]\n[[pool.worker]]\nurl = \"http://10.0.0.1:8000\"\n";

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn flags(words: &[&str]) -> ServeFlags {
    let command = <ServeFlags as clap::Args>::augment_args(Command::new("serve").no_binary_name(true));
    ServeFlags::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
}

fn load_all(text: &str, environment: &[(&str, &str)], words: &[&str]) -> Result<Loaded, ConfigError> {
    let file = file(text);
    let path = file.path().to_str().unwrap();
    let words: Vec<&str> = ["--config", path].iter().chain(words).copied().collect();
    load(&flags(&words), environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

fn config(text: &str) -> ServeConfig {
    load_all(text, &[], &[]).unwrap().config
}

/// The problems of a file, with the file's own name as FILE.
fn problems(text: &str) -> String {
    let file = file(text);
    let path = file.path().to_owned();
    load_file(&path).unwrap_err().to_string().replace(path.to_str().unwrap(), "FILE")
}

fn pool(config: &ServeConfig) -> &PoolConfig {
    assert_eq!(config.router.pools.len(), 1);
    &config.router.pools[0]
}

#[test]
fn nothing_but_a_worker_gives_the_documented_defaults() {
    let loaded = load(&flags(&["--worker", "http://10.0.0.1:8000/"]), std::iter::empty()).unwrap();
    let config = loaded.config;
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.admin_listen.to_string(), "127.0.0.1:9090");
    assert_eq!(config.trusted, []);
    assert_eq!(config.max_body, 32 << 20);
    assert_eq!(config.drain, Duration::from_secs(30));
    assert_eq!(config.metrics, MetricsOptions::default());
}

#[test]
#[expect(clippy::too_many_lines, reason = "a line a key")]
fn every_key_of_the_file_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        r#"
        [server]
        listen = "0.0.0.0:1"
        admin_listen = "[::1]:2"
        trusted = ["127.0.0.1", "fd00::/8"]
        max_body = "1MiB"
        drain = "2m"
        [[pool]]
        model = "m"
        aliases = ["a", "b"]
        tokenizer = {:?}
        policy = "least-loaded"
        block_size = 32
        observe = true
        count = "exact"
        on_mismatch = "load"
        on_no_prefill = "strict"
        local_prefill = 64
        migrations = 3
        timeouts = {{ connect = "1s", first_byte = "2s", idle = "3s", total = "4h" }}
        [pool.kv]
        prefill_scale = 2
        device_weight = 0.9
        host_weight = 0.8
        disk_weight = 0.7
        request_weight = 0.6
        decode_weight = 0.4
        recent_weight = 0.3
        temperature = 0.5
        [[pool.worker]]
        url = "http://a:1"
        role = "prefill"
        kv_events = "bind:tcp://0.0.0.0:5557"
        kv_replay = "tcp://a:5558"
        dp_ranks = 2
        [[pool.worker]]
        url = "http://b"
        role = "decode"
        kv_events = "none"
        [metrics]
        prefix = "acme"
        const_labels = {{ router_id = "r1" }}
        "#,
        folder.path()
    );
    let config = config(&text);
    assert_eq!((config.listen.port(), config.admin_listen.port()), (1, 2));
    assert_eq!(config.trusted, ["127.0.0.1/32".parse().unwrap(), "fd00::/8".parse().unwrap()]);
    assert_eq!((config.max_body, config.drain), (1 << 20, Duration::from_secs(120)));
    assert_eq!(config.metrics.prefix, "acme");
    assert_eq!(config.metrics.const_labels.get("router_id").unwrap(), "r1");
    let pool = pool(&config);
    assert_eq!(pool.model.as_ref().unwrap().as_str(), "m");
    assert_eq!(pool.aliases, ["a", "b"]);
    assert_eq!(pool.tokenizer, TokenizerSource::Path(folder.path().to_owned()));
    assert_eq!((pool.policy.as_str(), pool.observe, pool.count), ("least-loaded", true, CountMode::Exact));
    assert_eq!(pool.block_size, Some(BlockSize::new(32).unwrap()));
    assert_eq!(pool.timeouts.total, Duration::from_secs(4 * 3600));
    assert_eq!((pool.on_mismatch, pool.on_no_prefill), (OnMismatch::Load, OnNoPrefill::Strict));
    assert_eq!((pool.local_prefill, pool.migrations), (Tokens::new(64), 3));
    let weights = CostWeights {
        prefill_scale: 2.0,
        device: 0.9,
        host: 0.8,
        disk: 0.7,
        decode: 0.4,
        request: 0.6,
        recent: 0.3,
        temperature: 0.5,
    };
    assert_eq!(pool.weights, weights);
    assert_eq!(
        pool.workers[0],
        WorkerConfig {
            url: "http://a:1".to_owned(),
            role: WorkerRole::Prefill,
            kv_events: EventEndpoint::Bind(Endpoint::new("0.0.0.0", 5557)),
            kv_replay: EventEndpoint::Connect(Endpoint::new("a", 5558)),
            dp_ranks: Some(2),
        }
    );
    assert_eq!(pool.workers[1].kv_events, EventEndpoint::None);
}

#[test]
fn later_sources_win() {
    let text = format!("{WORKER}[metrics]\nprefix = \"file\"\n");
    let prefix = |environment: &[(&str, &str)], words: &[&str]| {
        load_all(&text, environment, words).unwrap().config.metrics.prefix
    };
    let foreign = ("DYN_METRICS_PREFIX", "foreign");
    let own = ("KVROUTE_METRICS_PREFIX", "own");
    assert_eq!(prefix(&[], &[]), "file");
    assert_eq!(prefix(&[foreign], &[]), "foreign");
    assert_eq!(prefix(&[own, foreign], &[]), "own");
    assert_eq!(prefix(&[foreign, own], &[]), "own");
    assert_eq!(prefix(&[own], &["--set", "metrics.prefix=flag"]), "flag");
}

#[test]
fn short_flags_are_the_last_word() {
    let words = ["--set", "server.listen=127.0.0.1:1", "--listen", "127.0.0.1:2", "--policy", "random"];
    let loaded = load_all(WORKER, &[("KVROUTE_SERVER_LISTEN", "127.0.0.1:3")], &words).unwrap();
    assert_eq!(loaded.config.listen.port(), 2);
    assert_eq!(pool(&loaded.config).policy, "random");
}

#[test]
fn the_environment_and_set_reach_every_pool_and_an_index_one() {
    let two = format!("{WORKER}{}", WORKER.replace("0.0.1", "0.0.2"));
    let temperatures = |environment: &[(&str, &str)], words: &[&str]| -> Vec<f64> {
        let loaded = load_all(&two, environment, words).unwrap();
        loaded.config.router.pools.iter().map(|pool| pool.weights.temperature).collect()
    };
    assert_eq!(temperatures(&[("KVROUTE_POOL_KV_TEMPERATURE", "0.5")], &[]), [0.5, 0.5]);
    assert_eq!(temperatures(&[], &["--set", "pool.kv.temperature=2"]), [2.0, 2.0]);
    assert_eq!(temperatures(&[], &["--set", "pool[1].kv.temperature=2"]), [0.0, 2.0]);
}

#[test]
fn values_of_every_kind_can_be_written_as_text() {
    let words = [
        "--set",
        "pool.aliases=a, b",
        "--set",
        "metrics.const_labels=x=1,y=2",
        "--set",
        "pool.observe=yes",
        "--set",
        "pool.block_size=64",
        "--set",
        "server.max_body=2KiB",
        "--set",
        "server.trusted=10.0.0.0/8, ::1",
        "--set",
        "pool.shadow=random,sticky",
        "--set",
        "pool.queue.limit=7",
        "--set",
        "pool.queue.threshold=off",
        "--set",
        "pool.decisions.sample=0.25",
        "--set",
        "pool.decisions.candidates=64",
        "--set",
        "pool.engine_load=off",
    ];
    let config = load_all(WORKER, &[], &words).unwrap().config;
    assert_eq!(pool(&config).aliases, ["a", "b"]);
    assert_eq!(config.metrics.const_labels.len(), 2);
    assert!(pool(&config).observe);
    assert_eq!(pool(&config).block_size, Some(BlockSize::new(64).unwrap()));
    assert_eq!(config.max_body, 2048);
    assert_eq!(config.trusted, ["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]);
    assert_eq!(pool(&config).shadow, ["random", "sticky"]);
    assert_eq!((pool(&config).queue.limit, pool(&config).queue.threshold), (7, BusyThreshold::Off));
    assert_eq!(pool(&config).decisions, DecisionsConfig { sample: 0.25, candidates: 64 });
    assert_eq!(pool(&config).engine_load, None);
    let toml = ["--set", "pool.aliases=[\"a,b\"]", "--set", "metrics.const_labels={ x = \"a,b\" }"];
    let config = load_all(WORKER, &[], &toml).unwrap().config;
    assert_eq!(pool(&config).aliases, ["a,b"]);
    assert_eq!(config.metrics.const_labels.get("x").unwrap(), "a,b");
}

#[test]
fn an_unknown_key_is_named_by_its_path_with_the_nearest_one() {
    assert_eq!(
        problems("[[pool]]\nblok_size = 16\n"),
        "unknown key \"pool[0].blok_size\": did you mean \"block_size\"?"
    );
    assert_eq!(
        problems("[[pool]]\n[pool.kv]\ntemprature = 1\n"),
        "unknown key \"pool[0].kv.temprature\": did you mean \"temperature\"?"
    );
    assert_eq!(
        problems("[[pool]]\n[[pool.worker]]\nurl=\"http://a\"\n[[pool.worker]]\nurll = 1\n"),
        "unknown key \"pool[0].worker[1].urll\": did you mean \"url\"?"
    );
    assert_eq!(problems("[sever]\nlisten = 1\n"), "unknown key \"sever\": did you mean \"server\"?");
    assert_eq!(
        problems("[server]\npolicy = \"kv\"\n"),
        "unknown key \"server.policy\": did you mean \"pool.policy\"?"
    );
    assert_eq!(
        problems("[metrics]\ncolour = 1\n"),
        "unknown key \"metrics.colour\": valid here are \"prefix\", \"const_labels\""
    );
}

#[test]
fn all_problems_of_a_file_are_named_at_once() {
    let named = problems("[server]\nlisten = 8080\ndrian = \"1s\"\n[[pool]]\npolicy = \"kvv\"\n");
    assert_eq!(named.lines().count(), 3, "{named}");
}

#[test]
fn a_wrong_value_is_named_with_its_key_its_source_and_what_is_right() {
    assert_eq!(
        problems("[server]\nlisten = 8080\n"),
        "server.listen is 8080; expected an IP address with a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\" (file FILE)"
    );
    assert_eq!(
        problems("[[pool]]\n[pool.timeouts]\nidle = \"0s\"\n"),
        "pool[0].timeouts.idle is \"0s\"; expected a duration such as \"30s\" (units ms, s, m, h), above zero (file FILE)"
    );
    assert_eq!(
        problems("[[pool]]\npolicy = \"round-robbin\"\n"),
        format!(
            "pool[0].policy is \"round-robbin\"; expected the name of a policy: {}; did you mean \"round-robin\"? (file FILE)",
            policy::NAMES.join(", ")
        )
    );
    let error = load_all(WORKER, &[("KVROUTE_SERVER_MAX_BODY", "much")], &[]).unwrap_err().to_string();
    assert!(error.starts_with("server.max_body is \"much\"; expected a size such as \"32MiB\""), "{error}");
    assert!(error.ends_with("(environment KVROUTE_SERVER_MAX_BODY)"), "{error}");
    let error = load_all(WORKER, &[], &["--listen", "localhost:80"]).unwrap_err().to_string();
    assert!(error.ends_with("(flag --listen)"), "{error}");
}

#[test]
fn a_wrong_value_is_repeated_shortly() {
    assert_eq!(
        problems("[[pool]]\n[pool.kv]\ntemperature = 1e308\n"),
        "pool[0].kv.temperature is 1e308; expected a number between 0 and 1000000 (file FILE)"
    );
    let long = problems(&format!("[server]\nlisten = \"{}\"\n", "ä".repeat(5000)));
    assert!(long.starts_with(&format!("server.listen is \"{}…; expected an IP", "ä".repeat(79))), "{long}");
}

#[test]
fn wrong_shapes_say_how_to_write_it() {
    assert_eq!(problems("[pool]\nmodel = \"a\"\n"), "pool is of type table; write [[pool]] above each one");
    assert_eq!(problems("server = 1\n"), "server is of type integer; write [server] with its keys below");
    assert!(problems("[server\n").starts_with("configuration FILE is not TOML: TOML parse error at line 1"));
    let absent = load_file(Path::new("/absent/kvroute.toml")).unwrap_err().to_string();
    assert!(absent.starts_with("cannot read configuration /absent/kvroute.toml: No such file"), "{absent}");
}

#[test]
fn rules_over_several_keys_name_them_and_the_remedy() {
    assert_eq!(
        problems(""),
        "no worker is configured; give --worker URL, or --config FILE with [[pool]] and [[pool.worker]]"
    );
    assert_eq!(
        problems("[[pool]]\nmodel = \"m\"\n"),
        "pool[0] has no worker; add [[pool.worker]] with its url or [pool.discovery], or give --worker URL"
    );
    assert!(
        problems("[[pool]]\n[[pool.worker]]\n")
            .starts_with("pool[0].worker[0].url is missing; set it to an address")
    );
    assert!(
        problems(&format!("{WORKER}{WORKER}"))
            .ends_with("stands in pool[0].worker[0] and in pool[1].worker[0]; keep one")
    );
    let twins = WORKER.replace("http://10.0.0.1:8000", "http://Engine")
        + "[[pool.worker]]\nurl = \"http://engine:80/\"\n";
    assert_eq!(
        problems(&twins),
        "worker http://engine:80 stands in pool[0].worker[0] and in pool[0].worker[1]; keep one"
    );
    let named =
        |name: &str, host: &str| format!("[[pool]]\n{name}\n[[pool.worker]]\nurl = \"http://{host}\"\n");
    assert_eq!(
        problems(&format!("{}{}", named("model = \"m\"", "a"), named("aliases = [\"m\"]", "b"))),
        "model name \"m\" stands in pool[0] and in pool[1]; keep one"
    );
    assert!(problems(&named("count = \"off\"", "a")).contains("policy \"kv\" needs the prompt's tokens"));
    let observed = named("count = \"off\"\npolicy = \"random\"\nobserve = true", "a");
    assert!(problems(&observed).contains("observe needs the prompt's tokens"));
    assert!(problems(&named("tokenizer = \"/absent\"", "a")).contains("which does not exist"));
    let shadowed = named("count = \"off\"\npolicy = \"random\"\nshadow = [\"round-robin\"]", "a");
    assert!(problems(&shadowed).contains("shadow needs the prompt's tokens; set shadow to []"));
    assert_eq!(
        problems(&named("policy = \"random\"\nshadow = [\"kv\", \"random\"]", "a")),
        "pool[0].shadow names \"random\", which is the pool's own policy already; take it out of the list"
    );
    assert_eq!(
        problems(&named("shadow = [\"random\", \"direct\"]", "a")),
        "pool[0].shadow names \"direct\", which picks nothing by itself; take it out of the list"
    );
    let compared_to_nothing = named("policy = \"direct\"\nshadow = [\"kv\"]", "a");
    assert!(
        problems(&compared_to_nothing).starts_with("pool[0].shadow is set, but requests whose caller names")
    );
    let same = format!("[server]\nlisten = \"127.0.0.1:9090\"\n{WORKER}");
    assert!(problems(&same).starts_with("server.listen and server.admin_listen are both 127.0.0.1:9090"));
    let clash = format!("{WORKER}[metrics]\nconst_labels = {{ model = \"x\" }}\n");
    assert!(problems(&clash).contains("label \"model\" is used by a metric"));
}

#[test]
fn workers_by_flag_join_the_only_pool() {
    let loaded = load_all(WORKER, &[], &["--worker", "http://b"]).unwrap();
    assert_eq!(pool(&loaded.config).workers.len(), 2);
    let two = format!("{WORKER}{}", WORKER.replace("0.0.1", "0.0.2"));
    let error = load_all(&two, &[], &["--worker", "http://b"]).unwrap_err().to_string();
    assert!(error.starts_with("--worker: the configuration has 2 pools"), "{error}");
}

#[test]
fn assignments_that_mean_nothing_are_refused() {
    let refusal = |assignment: &str| load_all(WORKER, &[], &["--set", assignment]).unwrap_err().to_string();
    assert_eq!(refusal("pool.policy"), "--set pool.policy: no '='; write --set KEY=VALUE");
    assert_eq!(refusal("pool.polcy=kv"), "unknown key \"pool.polcy\": did you mean \"policy\"?");
    assert_eq!(refusal("pool[7].policy=kv"), "--set pool[7].policy: no such pool among 1, counted from 0");
    assert!(refusal("pool.worker.url=http://a").contains("workers are named by the file or by --worker"));
}

#[test]
fn foreign_variables_are_left_alone_and_misspelt_ones_earn_a_warning() {
    let environment = [
        ("KVROUTE_CACHE", "/x"),
        ("KVROUTE_BLESS", "1"),
        ("PATH", "/bin"),
        ("KVROUTE_SERVER_LISTN", "x"),
        ("KVROUTE_POOL_WORKER_URL", "x"),
    ];
    let warnings = load_all(WORKER, &environment, &[]).unwrap().warnings;
    assert_eq!(
        warnings,
        [
            "environment KVROUTE_POOL_WORKER_URL is ignored: workers are named by the file or by --worker",
            "environment KVROUTE_SERVER_LISTN is ignored: no such setting; did you mean KVROUTE_SERVER_LISTEN?",
        ]
    );
}

#[test]
fn the_table_is_sound() {
    for row in ROWS {
        if let Some(default) = row.default {
            let value = raw::parse_toml_value(default).unwrap_or_else(|| panic!("{}: {default}", row.key));
            assert_eq!((row.check)(&value), Ok(()), "{}", row.key);
        }
        assert!(row.doc.trim().ends_with('.'), "{}: {:?}", row.key, row.doc);
        assert_eq!(ROWS.iter().filter(|other| other.env() == row.env()).count(), 1, "{}", row.env());
    }
}

#[test]
fn roles_that_leave_somebody_without_a_partner_are_refused() {
    let roles = |roles: &[&str], extra: &str| {
        let worker = |(number, role): (usize, &&str)| {
            format!("[[pool.worker]]\nurl = \"http://w{number}:1\"\nrole = \"{role}\"\n")
        };
        let workers: String = roles.iter().enumerate().map(worker).collect();
        load_all(&format!("[[pool]]\n{extra}{workers}"), &[], &[]).map(|_| ())
    };
    assert!(roles(&["prefill", "decode", "aggregated"], "").is_ok());
    assert!(roles(&["decode"], "").is_ok(), "it computes prompts itself");
    let error = roles(&["prefill", "aggregated"], "").unwrap_err().to_string();
    assert!(error.contains("none with role \"decode\""), "{error}");
    let error = roles(&["decode"], "on_no_prefill = \"strict\"\n").unwrap_err().to_string();
    assert!(error.contains("none with role \"prefill\""), "{error}");
}
