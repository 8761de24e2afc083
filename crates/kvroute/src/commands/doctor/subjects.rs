//! Who is examined, and what a router would be told about them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kvroute_core::{BlockSize, WorkerRole};
use kvroute_router::PoolConfig;
use kvroute_router::config::{CountMode, EventEndpoint, TokenizerSource, WorkerConfig};
use kvroute_tokenize::PromptTokenizer;

use super::DoctorFlags;
use crate::config;
use crate::failure::Failure;

/// One worker to be examined.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) url: String,
    /// The model to ask for; `None` asks for the engine's first.
    pub(super) model: Option<String>,
    /// What is set for it in a configuration.
    pub(super) settings: Settings,
    pub(super) tokenizer: Counting,
}

/// What a configuration says of a worker; without one, nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) role: Option<WorkerRole>,
    pub(super) block_size: Option<BlockSize>,
    pub(super) dp_ranks: Option<u32>,
    pub(super) kv_events: EventEndpoint,
    pub(super) kv_replay: EventEndpoint,
}

/// How prompts for a worker are counted.
#[derive(Clone, Debug)]
pub(super) enum Counting {
    /// By this tokenizer here.
    Here(Arc<PromptTokenizer>),
    /// By the worker itself.
    Engine,
    /// Not at all, as the configuration wants it.
    Off,
}

/// Everybody to be examined, in the order in which they were named.
#[derive(Debug)]
pub(super) struct Subjects(pub(super) Vec<Subject>);

/// Each folder is loaded once, however many pools use it.
#[derive(Default)]
struct Tokenizers(BTreeMap<PathBuf, Arc<PromptTokenizer>>);

// === impl Subjects ===

impl Subjects {
    /// From what was typed. A tokenizer that cannot be loaded is wrong usage: nothing would be compared.
    pub(super) fn of(flags: &DoctorFlags) -> Result<Self, Failure> {
        let mut tokenizers = Tokenizers::default();
        let named = flags.tokenizer.as_deref().map(|path| tokenizers.load(path)).transpose()?;
        let mut subjects = Vec::new();
        if let Some(path) = &flags.config {
            for pool in config::load_file(path)?.config.router.pools {
                subjects.extend(of_pool(&pool, named.as_ref(), &mut tokenizers)?);
            }
        }
        for url in &flags.urls {
            check_url(url)?;
            let tokenizer = named.clone().map_or(Counting::Engine, Counting::Here);
            let settings = Settings::default();
            subjects.push(Subject { url: trimmed(url), model: None, settings, tokenizer });
        }
        if let Some(model) = &flags.model {
            subjects.iter_mut().for_each(|subject| subject.model = Some(model.clone()));
        }
        if subjects.is_empty() {
            return Err(Failure::Usage("the configuration names no worker; give their URLs".to_owned()));
        }
        Ok(Self(subjects))
    }
}

fn of_pool(
    pool: &PoolConfig,
    named: Option<&Arc<PromptTokenizer>>,
    tokenizers: &mut Tokenizers,
) -> Result<Vec<Subject>, Failure> {
    let tokenizer = match (named, &pool.tokenizer, pool.count) {
        (Some(tokenizer), _, _) => Counting::Here(Arc::clone(tokenizer)),
        (None, _, CountMode::Off) => Counting::Off,
        (None, TokenizerSource::Engine, _) => Counting::Engine,
        (None, TokenizerSource::Path(path), _) => Counting::Here(tokenizers.load(path)?),
    };
    let subject = |worker: &WorkerConfig| Subject {
        url: trimmed(&worker.url),
        model: pool.model.as_ref().map(ToString::to_string),
        settings: Settings {
            role: Some(worker.role),
            block_size: pool.block_size,
            dp_ranks: worker.dp_ranks,
            kv_events: worker.kv_events.clone(),
            kv_replay: worker.kv_replay.clone(),
        },
        tokenizer: tokenizer.clone(),
    };
    Ok(pool.workers.iter().map(subject).collect())
}

fn check_url(url: &str) -> Result<(), Failure> {
    let uri: Option<http::Uri> = url.parse().ok();
    match uri.as_ref().and_then(http::Uri::scheme_str) {
        Some("http") => Ok(()),
        _ => Err(Failure::Usage(format!("{url} is no address of an engine; write http://HOST:PORT"))),
    }
}

fn trimmed(url: &str) -> String {
    url.trim_end_matches('/').to_owned()
}

// === impl Tokenizers ===

impl Tokenizers {
    fn load(&mut self, path: &Path) -> Result<Arc<PromptTokenizer>, Failure> {
        if let Some(loaded) = self.0.get(path) {
            return Ok(Arc::clone(loaded));
        }
        let loaded = Arc::new(PromptTokenizer::load(path)?);
        self.0.insert(path.to_owned(), Arc::clone(&loaded));
        Ok(loaded)
    }
}
