//! `/v1/models`: what requests may name, and who made the server.

use http::StatusCode;
use kvroute_core::Tokens;
use serde::Deserialize;

use super::ProbeError;
use crate::HttpClient;
use crate::http::{Answer, get};

/// One name that requests may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedModel {
    /// The name.
    pub id: String,
    /// The base model's name, for an adapter.
    pub parent: Option<String>,
    /// Where the engine has it from: a path, or the name of a repository.
    pub root: Option<String>,
    /// Longest prompt and answer together.
    pub max_model_len: Option<Tokens>,
    /// Further names of the same model.
    pub aliases: Vec<String>,
}

/// The answer to `/v1/models`.
#[derive(Debug)]
pub(crate) struct Models {
    pub(crate) owner: String,
    pub(crate) served: Vec<ServedModel>,
    pub(crate) vocabulary: Option<u32>,
}

#[derive(Deserialize)]
struct List {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(default)]
    owned_by: Option<String>,
    #[serde(default)]
    parent: Option<String>,
    #[serde(default)]
    root: Option<String>,
    #[serde(default)]
    max_model_len: Option<u64>,
    #[serde(default)]
    aliases: Option<Vec<String>>,
    #[serde(default)]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    n_ctx: Option<u64>,
    #[serde(default)]
    n_vocab: Option<u32>,
}

/// Asks for the models; the one question that must be answered.
pub(super) async fn ask(client: &HttpClient, url: &str) -> Result<Models, ProbeError> {
    match get(client, url, "/v1/models").await {
        Ok(answer) => read(url, &answer),
        Err(source) => Err(ProbeError::Unreachable { url: url.to_owned(), source }),
    }
}

/// Reads the answer.
pub(crate) fn read(url: &str, answer: &Answer) -> Result<Models, ProbeError> {
    let url_owned = || url.to_owned();
    let not_open_ai = |what: String| ProbeError::NotOpenAi { url: url_owned(), what };
    match answer.status {
        StatusCode::OK => {}
        StatusCode::SERVICE_UNAVAILABLE => return Err(ProbeError::Loading { url: url_owned() }),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err(ProbeError::Unauthorized { url: url_owned() });
        }
        status => return Err(not_open_ai(format!("status {status}"))),
    }
    let list: List = serde_json::from_slice(&answer.body).map_err(|error| not_open_ai(error.to_string()))?;
    if list.data.is_empty() {
        return Err(not_open_ai("an empty list of models".to_owned()));
    }
    let owner = list.data.iter().find_map(|entry| entry.owned_by.clone()).unwrap_or_default();
    let vocabulary = list.data.iter().find_map(|entry| entry.meta.as_ref()?.n_vocab);
    Ok(Models { owner, served: list.data.into_iter().map(ServedModel::from).collect(), vocabulary })
}

// === impl ServedModel ===

impl From<Entry> for ServedModel {
    fn from(entry: Entry) -> Self {
        let context = entry.max_model_len.or_else(|| entry.meta.and_then(|meta| meta.n_ctx));
        let mut aliases = entry.aliases.unwrap_or_default();
        aliases.retain(|alias| *alias != entry.id);
        let (parent, root) = (entry.parent, entry.root.filter(|root| !root.is_empty()));
        Self { parent, root, max_model_len: context.map(Tokens::new), aliases, id: entry.id }
    }
}
