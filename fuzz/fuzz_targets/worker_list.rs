//! Workers as somebody names them while the router runs: the file of a discovery, and the body of a request to the admin plane.
//! Whoever is let in has one name only.

#![no_main]

use std::collections::BTreeSet;

use kvroute_router::config::{WorkerConfig, WorkerSpec, parse_worker_url};
use kvroute_router::fuzz::read_worker_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    match read_worker_file(input) {
        Ok(workers) => check(&workers),
        Err(problem) => assert!(!problem.is_empty()),
    }
    let Ok(spec) = serde_json::from_slice::<WorkerSpec>(input) else { return };
    match spec.read() {
        Ok(worker) => check(&[worker]),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

fn check(workers: &[WorkerConfig]) {
    let names: BTreeSet<_> = workers.iter().map(WorkerConfig::id).collect();
    assert_eq!(names.len(), workers.len(), "one worker stands there twice");
    for worker in workers {
        assert_eq!(parse_worker_url(&worker.url).as_ref(), Ok(&worker.url), "its address has a second form");
        assert!(worker.dp_ranks != Some(0), "a worker without ranks");
    }
    // The addresses alone, a line each, are the same workers.
    let lines: String = workers.iter().map(|worker| format!("{}\n", worker.url)).collect();
    if let Ok(again) = read_worker_file(lines.as_bytes()) {
        let again: BTreeSet<_> = again.iter().map(WorkerConfig::id).collect();
        assert_eq!(again, names);
    } else {
        assert!(workers.is_empty(), "addresses that were taken are refused: {lines}");
    }
}
