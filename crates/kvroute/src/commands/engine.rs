//! `kvroute engine`: one simulated engine, until a signal asks it to end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use kvroute_core::BlockSize;
use kvroute_sim::{EventEndpoint, Flavour, SimConfig, SimEngine, SimRole, TokenizerEncoder};

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
    /// vllm, sglang, trtllm or llamacpp
    #[arg(long, value_name = "ENGINE", default_value = "vllm")]
    flavour: Flavour,
    /// aggregated (default), prefill or decode
    #[arg(
        long,
        value_name = "ROLE",
        default_value = "aggregated",
        hide_default_value = true,
        value_parser = parse_role
    )]
    role: SimRole,
    /// Data-parallel ranks, a cache each
    #[arg(long, value_name = "RANKS", default_value_t = 1)]
    dp_ranks: u32,
    /// Blocks of the KV cache
    #[arg(long, value_name = "BLOCKS", default_value_t = 2048)]
    kv_blocks: u32,
    /// Tokens in a block
    #[arg(long, value_name = "TOKENS", default_value = "16", value_parser = parse_block_size)]
    block_size: BlockSize,
    /// Longest sequence [default: the cache or 131072]
    #[arg(long, value_name = "TOKENS")]
    max_model_len: Option<u32>,
    /// Prefill tokens/s; 0: no delay
    #[arg(long, value_name = "TOKENS", default_value_t = 20_000)]
    prefill_tps: u64,
    /// Decode tokens/s each; 0: no delay
    #[arg(long, value_name = "TOKENS", default_value_t = 100)]
    decode_tps: u64,
    /// Slots of llamacpp
    #[arg(long, value_name = "SLOTS", default_value_t = 4)]
    slots: u32,
    /// Tokens of an image; 0: sees none
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    image_tokens: u32,
    /// Port of prefill's KV; 0: any
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    transfer_port: u16,
    /// KV events: auto, none or tcp://host:port
    #[arg(long, value_name = "ADDRESS", default_value = "auto", hide_default_value = true)]
    kv_events: EventEndpoint,
    /// Replay: auto, none or tcp://host:port
    #[arg(long, value_name = "ADDRESS", default_value = "auto", hide_default_value = true)]
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

fn parse_role(text: &str) -> Result<SimRole, String> {
    let role = SimRole::ALL.into_iter().find(|role| role.as_str() == text);
    role.ok_or_else(|| format!("no such role; use one of {}", SimRole::VALUES.join(", ")))
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
            role: self.role,
            dp_ranks: self.dp_ranks,
            kv_blocks: self.kv_blocks,
            block_size: self.block_size,
            max_model_len: self.max_model_len,
            prefill_tps: self.prefill_tps,
            decode_tps: self.decode_tps,
            slots: self.slots,
            image_tokens: self.image_tokens,
            scale_out: self.image_tokens > 0,
            transfer_port: self.transfer_port,
            kv_events: self.kv_events,
            kv_replay: self.kv_replay,
            seed: self.seed,
            ..SimConfig::default()
        }
    }
}
