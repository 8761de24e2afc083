//! The demo tokenizer and the demo model around it: `assets/README.md` tells what they are.

use anyhow::{Context, Result};

use crate::cache::cargo;
use crate::peers::{self, Peers};
use crate::shell::{command, run};

/// Makes both files again, or with `check` proves that the committed ones are fresh.
pub(crate) fn train(check: bool) -> Result<()> {
    train_with(&peers::set_up()?, check)
}

/// [`train`] with peers that are set up already.
pub(crate) fn train_with(peers: &Peers, check: bool) -> Result<()> {
    let flag = check.then_some("--check");
    let mut tokenizer = cargo("run")?;
    tokenizer.args(["--quiet", "--package", "xtask", "--example", "train_tokenizer", "--"]).args(flag);
    run(&mut tokenizer).context("the demo tokenizer")?;
    let mut model = command(&peers.python);
    model.arg("assets/llama/make_gguf.py").args(flag);
    run(&mut model).context("the demo model of llama.cpp")
}
