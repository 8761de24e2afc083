//! What a worker is, found from its URL alone.
//!
//! `/v1/models` is the one thing every server must answer: it names the models, and usually the engine. All other
//! questions follow from the engine and may go unanswered, since older builds lack them; what is missing stays
//! unknown and is learned later (a block size shows in the first KV event) or named in `notes`.

mod answers;
pub(crate) mod models;
mod ranks;

use kvroute_core::{BlockSize, Blocks, DpRank, Tokens, WorkerRole};
use kvroute_zmtp::Endpoint;

use crate::events::{BlockSizeClaim, EventAddress};
use crate::http::get;
use crate::render_remote::RemoteRenderer;
use crate::tokenize_remote::RemoteTokenizer;
use crate::{CallError, EngineKind, HttpClient};

pub(crate) use answers::Answers;
use models::Models;
pub use models::ServedModel;
pub(crate) use ranks::MAX_DP_RANKS;
pub use ranks::RankClaim;

/// What was found. A field that the engine does not tell is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The kind of engine.
    pub engine: EngineKind,
    /// Its release.
    pub version: Option<String>,
    /// Everything that requests may name, at least one.
    pub models: Vec<ServedModel>,
    /// Tokens in a block; what engines without blocks are counted in; `None` until the first event shows it.
    pub block_size: Option<BlockSize>,
    /// Blocks that one rank can hold.
    pub kv_capacity: Option<Blocks>,
    /// Prompt tokens that one rank computes in one step at most.
    pub batch_tokens: Option<Tokens>,
    /// Longest prompt and answer together of the base model.
    pub context_length: Option<Tokens>,
    /// Tokens of the model's vocabulary: ids are below this.
    pub vocabulary: Option<u32>,
    /// What the worker was started for; most engines do not tell.
    pub role: Option<WorkerRole>,
    /// Where a prefill worker waits for those who take its KV over.
    pub bootstrap_port: Option<u16>,
    /// Whether reports of cached tokens are switched on, where that is told beforehand.
    pub reports_reuse: Option<bool>,
    /// Whether prefixes are cached at all.
    pub caches_prefixes: Option<bool>,
    /// Data-parallel ranks, at least 1.
    pub dp_ranks: u32,
    /// Who said how many ranks there are; more than one number is a contradiction.
    pub rank_claims: Vec<RankClaim>,
    /// The size of its blocks as the announcement of its events has it, where that tells one.
    pub announced_block_size: Option<BlockSize>,
    /// Where its KV events are published, one entry a rank; empty when it publishes none or does not tell.
    pub events: Vec<AnnouncedEvents>,
    /// Whether its tokenize endpoint was asked and answered.
    pub can_tokenize: bool,
    /// Whether it tells what it makes of a chat with images; `None` where it did not say.
    pub can_render: Option<bool>,
    /// Images and their like that it was sent so far, where it counts them.
    pub items_seen: Option<u64>,
    /// Findings that somebody should act on.
    pub notes: Vec<String>,
    /// Questions that got no proper answer this time: what they would have told is unknown, not absent.
    pub unanswered: Vec<&'static str>,
    url: String,
}

/// Where one rank's events are, as the engine announces it, with its host filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedEvents {
    /// The rank.
    pub dp_rank: DpRank,
    /// The event socket, or the address to poll.
    pub events: EventAddress,
    /// The replay socket.
    pub replay: Option<Endpoint>,
    /// Topic of the messages; empty subscribes to all.
    pub topic: String,
}

/// A worker about which nothing could be found out.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No answer at all.
    #[error("worker {url} does not answer: {source}")]
    Unreachable {
        /// The worker.
        url: String,
        /// Why.
        source: CallError,
    },
    /// It is there and starts.
    #[error("worker {url} is still loading its model")]
    Loading {
        /// The worker.
        url: String,
    },
    /// It wants a key.
    #[error("worker {url} asks for an API key: let the router reach it without one")]
    Unauthorized {
        /// The worker.
        url: String,
    },
    /// Not the server that was meant.
    #[error(
        "worker {url} answers /v1/models with {what}: give the base address of an OpenAI-compatible server"
    )]
    NotOpenAi {
        /// The worker.
        url: String,
        /// Status, or what is wrong with the body.
        what: String,
    },
}

// === impl ProbeError ===

impl ProbeError {
    /// Whether the router could not ask, for want of something of its own.
    pub const fn is_shortage(&self) -> bool {
        matches!(self, Self::Unreachable { source: CallError::Shortage(_), .. })
    }
}

/// Asks a worker what it is.
///
/// # Errors
/// Only when `/v1/models` cannot be read; every other question may stay open.
pub async fn probe(client: &HttpClient, url: &str) -> Result<Probe, ProbeError> {
    let models = models::ask(client, url).await?;
    let engine = match EngineKind::by_owner(&models.owner) {
        Some(engine) => engine,
        None => EngineKind::by_telltale(client, url).await,
    };
    let answers = Answers::ask(client, url, engine.spec().questions).await;
    let mut probe = Probe::read(url, engine, models, &answers);
    probe.can_render = RemoteRenderer::new(client, url, engine).is_there().await;
    if let Some(model) = probe.models.first() {
        let tokenizer = RemoteTokenizer::new(client, url, engine);
        probe.can_tokenize = tokenizer.encode_text(&model.id, "a", false).await.is_ok();
    }
    Ok(probe)
}

// === impl Probe ===

impl Probe {
    /// Puts together what was answered, but for what only a further call can tell.
    pub(crate) fn read(url: &str, engine: EngineKind, models: Models, answers: &Answers) -> Self {
        let base = models.served.iter().find(|model| model.parent.is_none());
        let context_length = base.and_then(|model| model.max_model_len);
        let mut probe = Self {
            engine,
            version: None,
            vocabulary: models.vocabulary,
            context_length,
            models: models.served,
            block_size: None,
            kv_capacity: None,
            batch_tokens: None,
            role: None,
            bootstrap_port: None,
            reports_reuse: None,
            caches_prefixes: None,
            dp_ranks: 1,
            rank_claims: Vec::new(),
            announced_block_size: None,
            events: Vec::new(),
            can_tokenize: false,
            can_render: None,
            items_seen: None,
            notes: Vec::new(),
            unanswered: answers.unanswered().to_vec(),
            url: url.to_owned(),
        };
        let spec = engine.spec();
        (spec.describe)(answers, &mut probe);
        probe.block_size = probe.block_size.or(spec.assumed_block_size);
        if probe.caches_prefixes == Some(false) {
            probe.notes.push(format!("prefixes are not cached: {}", spec.caching_remedy));
        }
        probe
    }

    /// The base address that was asked.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What the answers say of the size of its blocks; an engine that has none of its own says nothing.
    pub fn block_size_claim(&self) -> BlockSizeClaim {
        self.own_block_size().map_or(BlockSizeClaim::Unknown, BlockSizeClaim::Told)
    }

    /// The size of its blocks where the engine told it; `None` for one that is only counted in.
    pub fn own_block_size(&self) -> Option<BlockSize> {
        self.block_size.filter(|_| self.engine.spec().assumed_block_size.is_none())
    }

    /// Takes an announced address, or notes why it is of no use.
    pub(crate) fn announce(
        &mut self,
        dp_rank: DpRank,
        events: &str,
        replay: Option<&str>,
        topic: Option<String>,
    ) {
        if !self.has_ranks(dp_rank.get().saturating_add(1)) {
            return;
        }
        let Some(events) = self.reachable(events) else { return };
        let replay = replay.filter(|text| !text.is_empty()).and_then(|text| self.reachable(text));
        self.events.push(AnnouncedEvents {
            dp_rank,
            events: EventAddress::Connect(events),
            replay,
            topic: topic.unwrap_or_default(),
        });
    }

    /// Takes note that the events of the one rank that can be addressed are to be polled.
    pub(crate) fn announce_polling(&mut self) {
        self.events.push(AnnouncedEvents {
            dp_rank: DpRank::new(0),
            events: EventAddress::Poll { url: self.url.trim_end_matches('/').to_owned() },
            replay: None,
            topic: String::new(),
        });
    }

    /// A wildcard is what the engine bound, so it is found at the worker's own host.
    fn reachable(&mut self, text: &str) -> Option<Endpoint> {
        match text.parse::<Endpoint>() {
            Ok(endpoint) if endpoint.is_wildcard() => {
                Some(Endpoint::new(host_of(&self.url), endpoint.port()))
            }
            Ok(endpoint) => Some(endpoint),
            Err(error) => {
                self.notes.push(format!("announced kv event address cannot be used: {error}"));
                None
            }
        }
    }
}

// === impl EngineKind ===

impl EngineKind {
    pub(crate) fn by_owner(owner: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| !owner.is_empty() && kind.spec().owner == owner)
    }

    /// For servers whose owner says nothing: whichever engine's own path is answered.
    async fn by_telltale(client: &HttpClient, url: &str) -> Self {
        for kind in Self::ALL {
            let path = kind.spec().telltale;
            let answer = if path.is_empty() { None } else { get(client, url, path).await.ok() };
            if answer.is_some_and(|answer| answer.text().is_some()) {
                return kind;
            }
        }
        Self::OpenAi
    }
}

fn host_of(url: &str) -> String {
    let host =
        url.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}
