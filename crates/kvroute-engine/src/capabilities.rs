//! What an engine can be told beside a request: a rank, where KV is handed over, that nobody wants the answer any more.
//!
//! Each is said in an engine's own words; here stands which words, and the router says them.

use serde_json::{Map, Value};

use crate::http::post;
use crate::{CallError, HttpClient};

/// How the KV of a computed prompt gets from the worker that computed it to the one that generates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handoff {
    /// vLLM: the first worker's answer holds `kv_transfer_params`, and the second request brings them.
    KvTransferParams,
    /// SGLang: both workers get the request at once, with the bootstrap address of the first and a room to meet in.
    Bootstrap,
    /// TensorRT-LLM: the first worker's answer holds `disaggregated_params`, and the second request brings them.
    DisaggregatedParams,
}

/// How a request says which data-parallel rank is to serve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankSteering {
    /// It cannot: the engine chooses.
    None,
    /// By a header with the rank's number.
    Header(&'static str),
    /// By a top-level member of the body with the rank's number.
    Member(&'static str),
}

/// How an engine is told to give up a request by its id, for connections whose end it does not notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AbortCall {
    /// Where it is posted.
    pub path: &'static str,
    /// The member that holds the id: in the body of this call, and in that of the request, which must have said it.
    pub id_member: &'static str,
}

// === impl AbortCall ===

impl AbortCall {
    /// The body of the call. `None` for an empty id, which stands for every request in some releases.
    pub fn body(&self, request_id: &str) -> Option<Vec<u8>> {
        let members = Map::from_iter([(self.id_member.to_owned(), Value::from(request_id))]);
        (!request_id.is_empty()).then(|| Value::Object(members).to_string().into_bytes())
    }

    /// Tells a worker at this base address to give up a request; an empty id tells it nothing.
    ///
    /// # Errors
    /// It cannot be told. What it answers does not matter: the request may have ended by itself.
    pub async fn send(&self, client: &HttpClient, url: &str, request_id: &str) -> Result<(), CallError> {
        let Some(body) = self.body(request_id) else { return Ok(()) };
        post(client, url, self.path, body).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use crate::EngineKind;

    #[test]
    fn a_call_names_one_request_and_never_all() {
        let call = EngineKind::Sglang.aborts().unwrap();
        let body = String::from_utf8(call.body("a\"b").unwrap()).unwrap();
        assert_eq!((call.path, body.as_str()), ("/abort_request", r#"{"rid":"a\"b"}"#));
        assert_eq!(call.body(""), None);
    }
}
