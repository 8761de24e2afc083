//! `kvroute check`: everything that `serve` would say about a configuration, without serving.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use kvroute_core::{ModelName, WorkerRole};
use kvroute_router::PoolConfig;
use kvroute_router::config::TokenizerSource;
use kvroute_server::ServeConfig;
use kvroute_tokenize::PromptTokenizer;

use crate::failure::Failure;
use crate::{config, output};

#[derive(Debug, Args)]
pub(crate) struct CheckFlags {
    /// Configuration file (TOML), as for `kvroute serve --config`
    #[arg(value_name = "CONFIG")]
    path: PathBuf,
}

/// Prints what the file means, or what is wrong with it. Environment and flags stay out of it: the same file
/// must earn the same answer on every machine that has its tokenizers.
pub(crate) fn run(flags: &CheckFlags) -> Result<(), Failure> {
    let loaded = config::load_file(&flags.path)?;
    for warning in &loaded.warnings {
        output::note(&format!("warning: {warning}"));
    }
    for pool in &loaded.config.router.pools {
        check_tokenizer(pool)?;
    }
    let summary = summary(&loaded.config);
    output::result(&summary).map_err(|error| Failure::while_doing("cannot print", error))
}

fn check_tokenizer(pool: &PoolConfig) -> Result<(), Failure> {
    let TokenizerSource::Path(path) = &pool.tokenizer else { return Ok(()) };
    let tokenizer = PromptTokenizer::load(path)?;
    if !tokenizer.has_chat_template() {
        output::note(&format!(
            "warning: {} has no chat template: chat requests will be routed by load and not counted",
            path.display()
        ));
    }
    Ok(())
}

fn summary(config: &ServeConfig) -> String {
    let mut text = format!("ok: data plane {}, admin plane {}\n", config.listen, config.admin_listen);
    if !config.trusted.is_empty() {
        let networks: Vec<_> = config.trusted.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "trusted callers: {}", networks.join(", "));
    }
    for pool in &config.router.pools {
        let model = pool.model.as_ref().map_or("(named by its workers)", ModelName::as_str);
        let policy = policies(pool);
        let found = pool.discovery.as_ref().map(|found| format!(", and whom {} names", found.kind));
        let _ =
            writeln!(text, "pool {model}: policy {policy}, {}{}", workers(pool), found.unwrap_or_default());
    }
    text
}

/// How many there are, of each role where there are several.
fn workers(pool: &PoolConfig) -> String {
    let of = |role: WorkerRole| pool.workers.iter().filter(|worker| worker.role == role).count();
    let counted =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "worker" } else { "workers" });
    if pool.workers.len() == of(WorkerRole::Aggregated) {
        return counted(pool.workers.len(), "");
    }
    let roles = WorkerRole::ALL.map(|role| (of(role), role));
    let named = roles.iter().filter(|(count, _)| *count > 0);
    named.map(|(count, role)| counted(*count, &format!("{} ", role.as_str()))).collect::<Vec<_>>().join(", ")
}

fn policies(pool: &PoolConfig) -> String {
    match pool.shadow.as_slice() {
        [] => pool.policy.clone(),
        shadow => format!("{} (beside it {})", pool.policy, shadow.join(", ")),
    }
}
