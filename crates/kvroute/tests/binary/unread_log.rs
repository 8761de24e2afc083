//! A log that nobody reads, such as a pipe whose reader stands still.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::process::{field, http, kvroute};

/// Their lines are several times what a pipe holds.
const REQUESTS: usize = 1000;

#[test]
fn a_log_that_nobody_reads_holds_up_no_request_and_not_the_end() {
    let arguments = [
        "serve",
        "--worker",
        "http://127.0.0.1:9",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
    ];
    let mut router = kvroute(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(router.stderr.take().unwrap()).lines();
    let serving = lines.by_ref().map_while(Result::ok).find(|line| line.contains("serving")).unwrap();
    let url = format!("http://{}/v1/nothing", field(&serving, "listen"));
    for _ in 0..REQUESTS {
        assert_eq!(http("POST", &url, "{}").0, 404);
    }
    let kill = format!("kill -TERM {}", router.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert!(router.wait().unwrap().success());
    drop(lines);
}
