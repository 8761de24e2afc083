//! A recorded trace as completion requests: token ids in place of the text that nobody has.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use kvroute_core::{BlockSize, TokenId, Tokens};
use kvroute_replay::{PromptSynthesizer, TokenRange, Trace, TraceRequest, read_mooncake_file, spread_ticks};
use serde::Serialize;

use crate::failure::Failure;

/// Mooncake's clock ticks.
const TICK: Duration = Duration::from_secs(3);

/// A trace and the maker of its prompts.
#[derive(Debug)]
pub(crate) struct Recording {
    trace: Trace,
    synthesizer: PromptSynthesizer,
}

#[derive(Serialize)]
struct CompletionBody<'a> {
    model: &'a str,
    prompt: Vec<TokenId>,
    max_tokens: u64,
    stream: bool,
}

// === impl Recording ===

impl Recording {
    /// Reads at most `limit` requests and spreads them inside the recorder's ticks.
    pub(crate) fn read(path: &Path, limit: usize, ids: TokenRange, seed: u64) -> Result<Self, Failure> {
        let usage = |error| Failure::Usage(format!("--trace {}: {error}", path.display()));
        let mut trace = read_mooncake_file(path, Some(limit)).map_err(usage)?;
        spread_ticks(&mut trace, TICK, seed);
        let synthesizer = PromptSynthesizer::new(trace.block_size, ids, seed);
        Ok(Self { trace, synthesizer })
    }

    /// Number of requests.
    pub(crate) fn len(&self) -> usize {
        self.trace.requests.len()
    }

    /// Tokens that one id of the trace stands for.
    pub(crate) const fn block_size(&self) -> BlockSize {
        self.trace.block_size
    }

    /// The longest prompt and answer together.
    pub(crate) fn longest(&self) -> Tokens {
        let length = |request: &TraceRequest| request.input + request.output;
        self.trace.requests.iter().map(length).max().unwrap_or_default()
    }

    /// When the request at a position was recorded, from the start of the trace.
    pub(crate) fn arrival(&self, position: usize) -> Duration {
        self.trace.requests[position].at
    }

    /// The request at a position, as the router gets it.
    pub(crate) fn body(&self, position: usize, model: &str) -> serde_json::Result<Bytes> {
        let request = &self.trace.requests[position];
        let prompt = self.synthesizer.prompt(position, request);
        let body = CompletionBody { model, prompt, max_tokens: request.output.get(), stream: true };
        serde_json::to_vec(&body).map(Bytes::from)
    }
}
