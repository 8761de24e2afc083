//! What is printed about the commands themselves.

use super::process::{failure, run, stdout};

/// The smallest screen that is still in use.
const COLUMNS: usize = 80;
const ROWS: usize = 24;

const COMMANDS: [&str; 8] =
    ["serve", "demo", "engine", "explain", "doctor", "check", "metrics", "completions"];

#[test]
fn each_help_fits_a_screen() {
    for arguments in [vec!["--help"]].into_iter().chain(COMMANDS.map(|command| vec![command, "--help"])) {
        let help = stdout(&arguments);
        let rows: usize = help.lines().map(|line| line.chars().count().div_ceil(COLUMNS).max(1)).sum();
        assert!(rows <= ROWS, "{arguments:?} has {rows} rows");
    }
}

#[test]
fn the_overview_names_every_command_and_no_other() {
    let help = stdout(&["--help"]);
    let (_, listed) = help.split_once("Commands:").unwrap();
    let listed = listed.split("Options:").next().unwrap();
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, COMMANDS);
}

#[test]
fn the_version_is_the_package_version() {
    assert_eq!(stdout(&["--version"]), format!("kvroute {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_usage_ends_with_2_and_names_what_is_wrong() {
    for (arguments, named) in [
        (vec!["sevre"], "sevre"),
        (vec!["serve", "--wroker", "http://a"], "--worker"),
        (vec!["demo", "--speed", "2"], "--trace"),
        (vec!["demo", "--workers", "0"], "1..=64"),
        (vec!["demo", "--policy", "kvv"], "did you mean"),
        (vec!["demo", "--duration", "30"], "units ms, s, m, h"),
        (vec!["demo", "--trace", "/absent.jsonl"], "cannot open trace /absent.jsonl"),
        (vec!["engine", "--flavour", "tgi"], "use one of vllm"),
        (vec!["engine", "--kv-blocks", "0"], "at least 1 block"),
        (vec!["engine", "--tokenizer", "/absent"], "/absent"),
        (vec!["explain"], "REQUEST.json"),
        (vec!["explain", "-", "--id", "d-1"], "--id"),
        (vec!["explain", "-", "--admin", "router:9090"], "http://127.0.0.1:9090"),
        (vec!["explain", "-", "--endpoint", "/v1/images"], "/v1/chat/completions"),
        (vec!["explain", "-", "--header", "x-session-id"], "NAME=VALUE"),
        (vec!["explain", "/absent.json"], "cannot read request /absent.json"),
        (vec!["explain", "-"], "the request is not JSON"),
        (vec!["metrics", "--format", "yaml"], "table, markdown, json, python, grafana, prometheus"),
        (vec!["metrics", "--prefix", "9lives"], "use letters, digits and _"),
        (vec!["metrics", "--format", "grafana", "--dashboard", "funel"], "funnel, history, workers, traffic"),
        (vec!["metrics", "--dashboard", "funnel"], "--dashboard needs --format grafana"),
        (vec!["completions", "klingon"], "klingon"),
        (vec!["check", "x", "--log", "=="], "--log"),
    ] {
        let (code, message) = failure(&arguments);
        assert_eq!(code, 2, "{arguments:?}: {message}");
        assert!(message.contains(named), "{arguments:?}: {message}");
        assert!(message.starts_with("error: "), "{arguments:?}: {message}");
    }
}

#[test]
fn every_shell_gets_completions_of_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&["completions", shell]);
        for command in COMMANDS {
            assert!(script.contains(command), "{shell} without {command}");
        }
        assert!(script.contains("admin-listen"), "{shell}");
    }
}

#[test]
fn no_command_at_all_prints_the_help() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("Usage: kvroute"));
}
