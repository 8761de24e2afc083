//! The steps of `cargo xtask test`.

use std::cell::OnceCell;
use std::process::Command;

use anyhow::Result;

use crate::cache::{cargo, target_folder};
use crate::peers::{self, Peers};
use crate::shell::{command, run};
use crate::{fuzz, lint, tokenizer};

/// One thing that must pass.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) name: &'static str,
    /// What it proves, and the peer it needs.
    pub(super) about: &'static str,
    pub(super) run: fn(&Context) -> Result<()>,
}

/// What fails fast comes first; the tests and their summary come last.
pub(super) const STEPS: [Step; 11] = [
    Step { name: "format", about: "the code is formatted", run: format },
    Step { name: "clippy", about: "no warnings of the compiler or of clippy", run: clippy },
    Step { name: "docs", about: "every public item is documented, every link leads somewhere", run: docs },
    Step { name: "structure", about: "dependency layers, file lengths, words", run: |_| lint::run() },
    Step { name: "peers", about: "set-up of what the following steps speak to", run: set_up_peers },
    Step {
        name: "licences",
        about: "licences, bans and sources of dependencies, by cargo-deny",
        run: licences,
    },
    Step {
        name: "assets",
        about: "demo tokenizer and model are what their scripts make, by gguf",
        run: assets,
    },
    Step { name: "doctests", about: "the examples in the documentation", run: doctests },
    Step {
        name: "interleavings",
        about: "readers and writers of index and history in every order of their steps, by loom",
        run: interleavings,
    },
    Step { name: "fuzz", about: "parsers of bytes from outside hold what their fuzz targets say", run: fuzz },
    Step {
        name: "tests",
        about: "all tests; peers: llama-server, libzmq, Prometheus, nats-server, tokenizers, transformers",
        run: tests,
    },
];

/// What the steps share.
pub(super) struct Context {
    long: bool,
    peers: OnceCell<Peers>,
}

// === impl Context ===

impl Context {
    pub(super) fn new(long: bool) -> Self {
        Self { long, peers: OnceCell::new() }
    }

    /// The peers, set up by the first step that asks for them.
    fn peers(&self) -> Result<&Peers> {
        if let Some(peers) = self.peers.get() {
            return Ok(peers);
        }
        let peers = peers::set_up()?;
        Ok(self.peers.get_or_init(|| peers))
    }

    /// A cargo command that runs tests, with the peers in its environment.
    fn testing(&self, subcommand: &str) -> Result<Command> {
        let mut cargo = cargo(subcommand)?;
        cargo.envs(self.peers()?.environment());
        if self.long {
            cargo
                .env("PROPTEST_CASES", "4096")
                .env("KVROUTE_FAULT_SECONDS", "600")
                .env("KVROUTE_FUNNEL_REQUESTS", "10000");
        }
        Ok(cargo)
    }
}

// === the steps ===

fn format(_: &Context) -> Result<()> {
    run(cargo("fmt")?.args(["--all", "--check"]))?;
    run(cargo("fmt")?.args(["--manifest-path", "fuzz/Cargo.toml", "--check"]))
}

fn clippy(_: &Context) -> Result<()> {
    let everything = ["--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"];
    run(cargo("clippy")?.args(everything))
}

fn docs(_: &Context) -> Result<()> {
    let mut doc = cargo("doc")?;
    run(doc.args(["--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "--deny warnings"))
}

fn set_up_peers(context: &Context) -> Result<()> {
    println!("{}", context.peers()?.summary());
    Ok(())
}

fn licences(context: &Context) -> Result<()> {
    let mut deny = command(&context.peers()?.cargo_deny);
    run(deny.args(["--locked", "--log-level", "error", "check", "licenses", "bans", "sources"]))
}

fn assets(context: &Context) -> Result<()> {
    tokenizer::train_with(context.peers()?, true)
}

fn doctests(context: &Context) -> Result<()> {
    run(context.testing("test")?.args(["--workspace", "--locked", "--doc", "--quiet"]))
}

/// Apart from the other builds, whose flags differ.
fn interleavings(_: &Context) -> Result<()> {
    let mut test = cargo("test")?;
    test.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target_folder()?.join("loom"));
    let crates = ["-p", "kvroute-index", "-p", "kvroute-history"];
    run(test.args(crates).args(["--locked", "--lib", "--quiet", "interleavings"]))
}

fn fuzz(context: &Context) -> Result<()> {
    let times = if context.long { 16 } else { 1 };
    fuzz::run(&fuzz::Options { targets: Vec::new(), seconds: times * fuzz::SECONDS })
}

/// By nextest where it is installed: each test in its own process, and a limit of time for one that hangs.
fn tests(context: &Context) -> Result<()> {
    let has_nextest =
        command("cargo").args(["nextest", "--version"]).output().is_ok_and(|out| out.status.success());
    if has_nextest {
        let long: &[&str] = if context.long { &["--profile", "long", "--run-ignored", "all"] } else { &[] };
        return run(context
            .testing("nextest")?
            .args(["run", "--workspace", "--locked", "--no-fail-fast"])
            .args(long));
    }
    let long: &[&str] = if context.long { &["--", "--include-ignored"] } else { &[] };
    let targets = ["--workspace", "--locked", "--no-fail-fast", "--lib", "--bins", "--tests", "--examples"];
    run(context.testing("test")?.args(targets).args(long))
}
