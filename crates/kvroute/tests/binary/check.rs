//! `kvroute check`: the verdict on a file.

use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;

use super::process::{failure, kvroute, stdout};

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn refusal(text: &str) -> String {
    let file = file(text);
    let (code, message) = failure(&["check", file.path().to_str().unwrap()]);
    assert_eq!(code, 2, "{message}");
    message
}

#[test]
fn a_good_file_is_summed_up() {
    let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo-tokenizer");
    let file = file(&format!(
        "[server]\nlisten = \"0.0.0.0:1\"\n[[pool]]\nmodel = \"m\"\ntokenizer = {tokenizer:?}\n\
         [[pool.worker]]\nurl = \"http://a:1\"\n[[pool]]\npolicy = \"random\"\n[[pool.worker]]\nurl = \"http://b:1\"\n"
    ));
    assert_eq!(
        stdout(&["check", file.path().to_str().unwrap()]),
        "ok: data plane 0.0.0.0:1, admin plane 127.0.0.1:9090\n\
         pool m: policy kv, 1 worker\n\
         pool (named by its workers): policy random, 1 worker\n"
    );
}

#[test]
fn who_is_trusted_and_what_is_asked_beside_the_policy_is_summed_up_too() {
    let file = file(
        "[server]\ntrusted = [\"127.0.0.1\", \"fd00::/8\"]\n[[pool]]\nmodel = \"m\"\nshadow = [\"random\", \"sticky\"]\n\
         [[pool.worker]]\nurl = \"http://a:1\"\n",
    );
    assert_eq!(
        stdout(&["check", file.path().to_str().unwrap()]),
        "ok: data plane 127.0.0.1:8080, admin plane 127.0.0.1:9090\n\
         trusted callers: 127.0.0.1/32, fd00::/8\n\
         pool m: policy kv (beside it random, sticky), 1 worker\n"
    );
}

#[test]
fn each_problem_is_a_line_of_its_own() {
    let message = refusal("[[pool]]\nblok_size = 16\npolicy = 3\n");
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), 2, "{message}");
    assert_eq!(lines[0], "error: unknown key \"pool[0].blok_size\": did you mean \"block_size\"?");
    assert!(
        lines[1].starts_with("error: pool[0].policy is 3; expected the name of a policy: kv, round-robin"),
        "{message}"
    );
}

#[test]
fn a_tokenizer_that_cannot_be_loaded_is_a_problem_of_the_file() {
    let empty = tempfile::tempdir().unwrap();
    let message =
        refusal(&format!("[[pool]]\ntokenizer = {:?}\n[[pool.worker]]\nurl = \"http://a\"\n", empty.path()));
    assert!(message.contains("tokenizer.json"), "{message}");
    assert!(message.contains(empty.path().to_str().unwrap()), "{message}");
}

#[test]
fn the_environment_stays_out_of_the_verdict() {
    let file = file("[[pool]]\n[[pool.worker]]\nurl = \"http://a\"\n");
    let mut command = kvroute(&["check", file.path().to_str().unwrap()]);
    let output = command.env("KVROUTE_POOL_POLICY", "nonsense").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
