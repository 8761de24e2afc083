//! `kvroute serve`: start, refusal to start, and the end.

use std::net::TcpListener;

use super::process::{Running, failure, field, http, kvroute};

const ANY_PORT: [&str; 4] = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];

fn serve(arguments: &[&str]) -> Vec<String> {
    ["serve"].iter().chain(&ANY_PORT).chain(arguments).map(|word| (*word).to_owned()).collect()
}

fn start(arguments: &[&str]) -> (Running, String, String) {
    let words = serve(arguments);
    let router = Running::start(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let line = router.line_with("serving");
    let (data, admin) = (field(&line, "listen").to_owned(), field(&line, "admin").to_owned());
    (router, format!("http://{data}"), format!("http://{admin}"))
}

#[test]
fn without_any_worker_there_is_nothing_to_serve() {
    let (code, message) = failure(&["serve"]);
    assert_eq!(code, 2);
    assert_eq!(
        message,
        "error: no worker is configured; give --worker URL, or --config FILE with [[pool]] and [[pool.worker]]\n"
    );
}

#[test]
fn a_port_in_use_is_named_with_its_setting_and_the_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, setting, other) in [
        ("--listen", "server.listen", "--admin-listen"),
        ("--admin-listen", "server.admin_listen", "--listen"),
    ] {
        let arguments = ["serve", "--worker", "http://127.0.0.1:9", flag, &address, other, "127.0.0.1:0"];
        let (code, message) = failure(&arguments);
        assert_eq!(code, 1, "{message}");
        for named in [address.as_str(), setting, "choose another address"] {
            assert!(message.contains(named), "{named:?} not in {message}");
        }
    }
}

#[test]
fn a_router_serves_both_planes_and_ends_on_a_signal() {
    let engine = Running::start(&["engine", "--listen", "127.0.0.1:0", "--model", "m"]);
    let engine_url = field(&engine.line_with("serving"), "url").to_owned();
    let (router, data, admin) = start(&["--worker", &engine_url]);
    assert_eq!(http("GET", &format!("{data}/live"), "").0, 200);
    let (status, metrics) = http("GET", &format!("{admin}/metrics"), "");
    assert_eq!(status, 200);
    assert!(metrics.contains("kvroute_build_info"), "{metrics}");
    router.terminate();
    router.line_with("stopping");
    assert!(router.wait().success());
}

#[test]
fn a_misspelt_variable_is_warned_about() {
    let words = serve(&["--worker", "http://127.0.0.1:9"]);
    let mut command = kvroute(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let router = Running::spawn(command.env("KVROUTE_SERVER_DRIAN", "1s"));
    let warning = router.line_with("KVROUTE_SERVER_DRIAN");
    assert!(warning.contains("WARN") && warning.contains("did you mean KVROUTE_SERVER_DRAIN?"), "{warning}");
}
