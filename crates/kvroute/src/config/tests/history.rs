use kvroute_router::config::{ClusterConfig, HistoryConfig, HistoryOutputs};

use super::*;

const ENABLED: &str = "DYN_ROUTER_CACHE_REUSE_HISTORY";
const BYTES: &str = "DYN_ROUTER_CACHE_REUSE_HISTORY_BYTES";

fn history(text: &str, environment: &[(&str, &str)], words: &[&str]) -> HistoryConfig {
    pool(&load_all(text, environment, words).unwrap().config).history.clone()
}

#[test]
fn nothing_is_remembered_and_nothing_is_shared_unless_somebody_says_so() {
    let config = config(WORKER);
    assert_eq!(pool(&config).history, HistoryConfig::default());
    assert_eq!((pool(&config).history.enabled, pool(&config).history.bytes), (false, 256 << 20));
    assert_eq!(config.router.cluster, ClusterConfig::default());
}

#[test]
fn every_key_of_the_history_and_the_cluster_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.snap");
    let text = format!(
        "[cluster]\nnats = \"nats://a:1, nats://me:secret@b:2\"\nreplica_sync = true\n{WORKER}\
         [pool.history]\nenabled = true\noutputs = \"ids\"\nbytes = \"1GiB\"\nsnapshot = {file:?}\n"
    );
    let config = config(&text);
    let expected =
        HistoryConfig { enabled: true, outputs: HistoryOutputs::Ids, bytes: 1 << 30, snapshot: Some(file) };
    assert_eq!(pool(&config).history, expected);
    let nats = Some("nats://a:1, nats://me:secret@b:2".to_owned());
    assert_eq!(config.router.cluster, ClusterConfig { nats, replica_sync: true });
}

#[test]
fn the_published_name_switches_it_on_under_the_own_one() {
    for truthy in ["1", "true", "yes", "on", "TRUE", "Yes", "oN"] {
        assert!(history(WORKER, &[(ENABLED, truthy)], &[]).enabled, "{truthy}");
    }
    for falsy in ["0", "false", "no", "off", ""] {
        assert!(!history(WORKER, &[(ENABLED, falsy)], &[]).enabled, "{falsy}");
    }
    let file = format!("{WORKER}[pool.history]\nenabled = true\n");
    let own = ("KVROUTE_POOL_HISTORY_ENABLED", "no");
    assert!(history(&file, &[], &[]).enabled);
    assert!(!history(&file, &[(ENABLED, "no")], &[]).enabled);
    assert!(!history(WORKER, &[(ENABLED, "yes"), own], &[]).enabled);
    assert!(history(WORKER, &[own], &["--set", "pool.history.enabled=on"]).enabled);
}

#[test]
fn it_is_switched_on_in_every_pool() {
    let two =
        format!("{WORKER}[[pool]]\nmodel = \"other\"\n[[pool.worker]]\nurl = \"http://10.0.0.2:8000\"\n");
    let loaded = load_all(&two, &[(ENABLED, "1"), (BYTES, "junk")], &[]).unwrap();
    assert!(loaded.config.router.pools.iter().all(|pool| pool.history.enabled));
    assert_eq!(loaded.warnings.len(), 1, "once, for both pools: {:?}", loaded.warnings);
}

#[test]
fn a_budget_that_is_no_size_is_ignored_with_one_warning_and_the_default_counts() {
    let file = |bytes: &str| format!("{WORKER}[pool.history]\nbytes = {bytes}\n");
    let own = "KVROUTE_POOL_HISTORY_BYTES";
    for (text, environment, parts) in [
        (WORKER.to_owned(), vec![(BYTES, "lots")], [BYTES, "lots"]),
        (WORKER.to_owned(), vec![(BYTES, "0")], [BYTES, "0"]),
        (WORKER.to_owned(), vec![(own, "-1")], [own, "-1"]),
        (WORKER.to_owned(), vec![(own, "1.5GiB")], [own, "1.5GiB"]),
        (file("\"1GiB\""), vec![(BYTES, "99999999999999999999")], [BYTES, "99999999999999999999"]),
        (file("\"much\""), vec![], ["pool.history.bytes", "much"]),
        (file("true"), vec![], ["pool.history.bytes", "true"]),
    ] {
        let loaded = load_all(&text, &environment, &[]).unwrap();
        assert_eq!(pool(&loaded.config).history.bytes, HistoryConfig::DEFAULT_BYTES, "{parts:?}");
        let [warning] = loaded.warnings.as_slice() else { panic!("{:?}", loaded.warnings) };
        for part in parts.into_iter().chain(["256MiB", "ignored"]) {
            assert!(warning.contains(part), "{part} not in {warning}");
        }
    }
    assert_eq!(history(WORKER, &[(BYTES, "1048576")], &[]).bytes, 1 << 20);
    assert_eq!(load_all(WORKER, &[(BYTES, "1048576")], &[]).unwrap().warnings, [""; 0]);
}

#[test]
fn sharing_needs_a_server() {
    let problem = problems(&format!("[cluster]\nreplica_sync = true\n{WORKER}"));
    assert!(problem.contains("cluster.nats") && problem.contains("replica_sync"), "{problem}");
    config(&format!("[cluster]\nnats = \"nats://a:4222\"\n{WORKER}"));
}

#[test]
fn an_address_that_is_none_is_told_without_its_password() {
    let problem = problems(&format!("[cluster]\nnats = \"http://me:secret@a:4222\"\n{WORKER}"));
    assert!(problem.contains("nats://127.0.0.1:4222") && problem.contains("http://***@a:4222"), "{problem}");
    assert!(!problem.contains("secret"), "{problem}");
    for wrong in ["", "a:4222", "nats://", "nats://a/b", "nats://a,http://b", "tls://a"] {
        problems(&format!("[cluster]\nnats = \"{wrong}\"\n{WORKER}"));
    }
}

#[test]
fn an_index_and_a_history_do_not_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.snap");
    let text = format!("{WORKER}[pool.index]\nsnapshot = {file:?}\n[pool.history]\nsnapshot = {file:?}\n");
    assert!(problems(&text).contains("its own file"));
    let text =
        format!("{WORKER}[pool.index]\nsnapshot = \"a.snap\"\n[pool.history]\nsnapshot = \"./a.snap\"\n");
    assert!(problems(&text).contains("its own file"), "one file in two spellings");
    let text = format!("{WORKER}[pool.history]\nsnapshot = \"/no such folder/a\"\n");
    assert!(problems(&text).contains("pool[0].history.snapshot"), "{}", problems(&text));
}
