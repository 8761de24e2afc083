//! What a running server may be told anew, each part swapped whole: a request sees the old settings or the new ones.

use std::sync::Arc;

use arc_swap::ArcSwap;
use kvroute_router::config::ReadyWhen;
use serde_json::{Map, Value};

use crate::admin_tokens::AdminTokens;
use crate::body::BodyLimits;
use crate::keys::ApiKeys;
use crate::limits::Turnstile;
use crate::listener::Terms;
use crate::named_file::NamedFile;
use crate::server::ServeConfig;

/// Everything that may change while the server runs.
#[derive(Debug)]
pub(crate) struct Live {
    /// For requests, of either plane.
    pub(crate) settings: ArcSwap<Settings>,
    /// For connections of the data plane.
    pub(crate) data: Arc<ArcSwap<Terms>>,
    /// For connections of the admin plane.
    pub(crate) admin: Arc<ArcSwap<Terms>>,
}

/// What requests are held against.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Keys of those who may ask; `None` is open to all.
    pub(crate) keys: Option<ApiKeys>,
    /// Tokens of those who may use the admin plane; `None` is open to programs of this machine.
    pub(crate) admin_tokens: Option<AdminTokens>,
    pub(crate) turnstile: Turnstile,
    pub(crate) body: BodyLimits,
    /// Which pools must be able to take requests.
    pub(crate) ready: ReadyWhen,
    /// The configuration without its secrets.
    pub(crate) shown: Map<String, Value>,
    /// Files that it was read from beside its own.
    pub(crate) files: Vec<NamedFile>,
}

// === impl Live ===

impl Live {
    pub(crate) fn new(config: &ServeConfig) -> Self {
        let terms = |terms: Terms| Arc::new(ArcSwap::from_pointee(terms));
        Self {
            settings: ArcSwap::from_pointee(Settings::new(config)),
            data: terms(Terms::of_data(config)),
            admin: terms(Terms::of_admin(config)),
        }
    }
}

// === impl Settings ===

impl Settings {
    fn new(config: &ServeConfig) -> Self {
        let security = &config.security;
        Self {
            keys: config.api_keys.clone(),
            admin_tokens: security.admin_tokens.clone(),
            turnstile: Turnstile::new(&security.limits),
            body: BodyLimits { largest: config.max_body, slowest: security.limits.body },
            ready: config.ready,
            shown: security.shown.clone(),
            files: security.files.clone(),
        }
    }

    /// New settings that do not give back what clients have spent of their rates.
    pub(crate) fn succeeding(before: &Self, config: &ServeConfig) -> Self {
        let mut settings = Self::new(config);
        settings.turnstile = Turnstile::succeeding(&before.turnstile, &config.security.limits);
        if let (Some(keys), Some(before)) = (&settings.keys, &before.keys) {
            settings.keys = Some(keys.succeeding(before));
        }
        settings
    }
}
