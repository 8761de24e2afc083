//! `kvroute engine`: one simulated engine, until a signal asks it to end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use kvroute_core::BlockSize;
use kvroute_sim::{EventEndpoint, Flavour, SimConfig, SimEngine, TokenizerEncoder};

use crate::failure::Failure;
use crate::signals::StopSignals;
use crate::tokenizer::demo_tokenizer;

#[derive(Debug, Args)]
pub(crate) struct EngineFlags {
    /// HTTP address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// Model name that is served
    #[arg(long, value_name = "NAME", default_value = "sim")]
    model: String,
    /// Folder with tokenizer.json [default: built in]
    #[arg(long, value_name = "PATH")]
    tokenizer: Option<PathBuf>,
    /// Engine that it stands for: vllm
    #[arg(long, value_name = "ENGINE", default_value = "vllm")]
    flavour: Flavour,
    /// Blocks of the KV cache
    #[arg(long, value_name = "BLOCKS", default_value_t = 2048)]
    kv_blocks: u32,
    /// Tokens in a block
    #[arg(long, value_name = "TOKENS", default_value = "16", value_parser = parse_block_size)]
    block_size: BlockSize,
    /// Longest prompt and answer together, in tokens [default: the cache, at most 131072]
    #[arg(long, value_name = "TOKENS")]
    max_model_len: Option<u32>,
    /// Prompt tokens computed a second; 0 takes no time
    #[arg(long, value_name = "TOKENS", default_value_t = 20_000)]
    prefill_tps: u64,
    /// Tokens generated a second by each sequence; 0 takes no time
    #[arg(long, value_name = "TOKENS", default_value_t = 100)]
    decode_tps: u64,
    /// KV event socket: auto (a free port), none or tcp://host:port
    #[arg(long, value_name = "ADDRESS", default_value = "auto")]
    kv_events: EventEndpoint,
    /// Replay socket for lost events: auto, none or tcp://host:port
    #[arg(long, value_name = "ADDRESS", default_value = "auto")]
    kv_replay: EventEndpoint,
    /// Seed of the answers
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

/// Reads a block size from the command line.
pub(crate) fn parse_block_size(text: &str) -> Result<BlockSize, String> {
    let tokens: u32 = text.parse().map_err(|_| "not a number of tokens".to_owned())?;
    BlockSize::new(tokens).map_err(|error| error.to_string())
}

/// Serves until SIGTERM or Ctrl-C.
pub(crate) async fn run(flags: EngineFlags) -> Result<(), Failure> {
    let tokenizer = match &flags.tokenizer {
        Some(path) => TokenizerEncoder::load(path)?,
        None => demo_tokenizer()?,
    };
    let mut signals = StopSignals::listen()?;
    let engine = SimEngine::start(flags.into_config(), Arc::new(tokenizer)).await?;
    tracing::info!(url = %engine.url(), "serving");
    let signal = signals.next().await;
    tracing::info!(signal, "stopping");
    engine.stop().await;
    Ok(())
}

// === impl EngineFlags ===

impl EngineFlags {
    fn into_config(self) -> SimConfig {
        SimConfig {
            listen: self.listen,
            model: self.model,
            flavour: self.flavour,
            kv_blocks: self.kv_blocks,
            block_size: self.block_size,
            max_model_len: self.max_model_len,
            prefill_tps: self.prefill_tps,
            decode_tps: self.decode_tps,
            kv_events: self.kv_events,
            kv_replay: self.kv_replay,
            seed: self.seed,
            ..SimConfig::default()
        }
    }
}
