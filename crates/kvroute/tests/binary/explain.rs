//! `kvroute explain`: in front of a running router, and without one.

use std::fs::File;
use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

use kvroute_testkit::kept_address;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::process::{Running, failure, field, http, kvroute, stdout};

const PAUSE: Duration = Duration::from_millis(20);

/// Two engines and a router in front of them.
struct Served {
    _engines: [Running; 2],
    _router: Running,
    data: String,
    admin: String,
}

impl Served {
    fn start() -> Self {
        let engine = || Running::start(&["engine", "--listen", "127.0.0.1:0", "--model", "m"]);
        let engines = [engine(), engine()];
        let urls = engines.each_ref().map(|engine| field(&engine.line_with("serving"), "url").to_owned());
        let ports = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
        let workers = ["--worker", &urls[0], "--worker", &urls[1]];
        let router = Running::start(&[&["serve"][..], &ports, &workers].concat());
        let line = router.line_with("serving");
        let address = |key| format!("http://{}", field(&line, key));
        let (data, admin) = (address("listen"), address("admin"));
        let has_joined = |worker: &Value| worker["ranks"][0]["source_state"] == "exact";
        let has_all = || {
            let workers: Value =
                serde_json::from_str(&http("GET", &format!("{admin}/api/workers"), "").1).unwrap();
            workers.as_array().unwrap().iter().all(has_joined)
        };
        while !has_all() {
            sleep(PAUSE);
        }
        Self { _engines: engines, _router: router, data, admin }
    }

    /// Serves one completion and gives the decisions once its report is among them.
    fn complete(&self) -> Value {
        let (status, answer) = http("POST", &format!("{}/v1/completions", self.data), &request().to_string());
        assert_eq!(status, 200, "{answer}");
        loop {
            let (_, list) = http("GET", &format!("{}/api/decisions", self.admin), "");
            let decisions: Value = serde_json::from_str(&list).unwrap();
            if !decisions[0]["report"].is_null() {
                return decisions;
            }
            sleep(PAUSE);
        }
    }

    fn explain(&self, arguments: &[&str]) -> String {
        stdout(&[&["explain", "--admin", &self.admin], arguments].concat())
    }
}

fn request() -> Value {
    json!({"model": "m", "prompt": "a prompt of a few words that fill a block or two of the cache, one by one", "max_tokens": 2})
}

fn file(content: &Value) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(content.to_string().as_bytes()).unwrap();
    file
}

#[test]
fn a_running_router_explains_what_it_would_do_and_what_it_did() {
    let served = Served::start();
    let body = file(&request());
    let path = body.path().to_str().unwrap();

    let advice = served.explain(&[path]);
    assert!(advice.starts_with("would pick 127.0.0.1:"), "{advice}");
    for named in ["of 2: tie\n", "model m, policy kv, ", "prefill", "lost by the decision: nothing\n"] {
        assert!(advice.contains(named), "{named:?} not in {advice}");
    }

    let decisions = served.complete();
    let record = &decisions[0];
    for id in ["id", "request_id"] {
        let id = record[id].as_str().unwrap();
        let taken = served.explain(&["--id", id]);
        let worker = record["worker_id"].as_str().unwrap();
        assert!(taken.starts_with(&format!("picked {worker}/0 of 2: tie\n")), "{taken}");
        assert!(taken.contains(&format!("decision {}", record["id"].as_str().unwrap())), "{taken}");
        assert!(taken.contains("report: completed, valid report: the engine reused 0 of"), "{taken}");
        let as_json: Value = serde_json::from_str(&served.explain(&["--id", id, "--json"])).unwrap();
        assert_eq!((&as_json["id"], &as_json["worker_id"]), (&record["id"], &record["worker_id"]));
    }

    let other = advice.lines().find_map(|line| line.strip_prefix("  127")).unwrap();
    let other = format!("127{}", other.split_whitespace().next().unwrap());
    let pinned = served.explain(&[path, "--header", &format!("x-kvroute-worker={other}")]);
    assert!(pinned.starts_with(&format!("would pick {other} of 1 (1 excluded): pinned\n")), "{pinned}");

    let mut from_stdin = kvroute(&["explain", "-", "--admin", &served.admin, "--json"]);
    let output = from_stdin.stdin(File::open(path).unwrap()).output().unwrap();
    let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&advice["id"], &advice["policy"]), (&Value::Null, &json!("kv")));
}

#[test]
fn what_the_router_refuses_is_passed_on() {
    let served = Served::start();
    let (code, message) = failure(&["explain", "--admin", &served.admin, "--id", "a/b c"]);
    assert_eq!(code, 1, "{message}");
    assert!(message.contains("404") && message.contains("no decision \"a/b c\" is kept"), "{message}");
    let unknown = file(&json!({"model": "other", "messages": [{"role": "user", "content": "a"}]}));
    let (code, message) = failure(&["explain", unknown.path().to_str().unwrap(), "--admin", &served.admin]);
    assert_eq!(code, 1, "{message}");
    assert!(message.contains("model \"other\" is not served here; served models: m"), "{message}");
}

#[test]
fn without_a_router_the_address_and_the_remedy_are_named() {
    let free = kept_address();
    let (code, message) = failure(&["explain", "--admin", &format!("http://{free}"), "--id", "d-1"]);
    assert_eq!(code, 1, "{message}");
    for named in [free.to_string().as_str(), "refused", "kvroute serve", "--admin"] {
        assert!(message.contains(named), "{named:?} not in {message}");
    }
    let engine = Running::start(&["engine", "--listen", "127.0.0.1:0"]);
    let url = field(&engine.line_with("serving"), "url").to_owned();
    let (code, message) = failure(&["explain", "--admin", &url, "--id", "d-1"]);
    assert_eq!(code, 1, "{message}");
    assert!(message.contains("is this the admin address of a kvroute router?"), "{message}");
}
