//! What can be typed behind `kvroute demo`.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::pace::Pace;
use crate::config;

#[derive(Debug, Args)]
pub(crate) struct DemoFlags {
    /// Simulated engines
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = RangedU64ValueParser::<u32>::new().range(1..=64))]
    pub(crate) workers: u32,
    /// Policies to run one after the other, each in front of cold engines
    #[arg(long = "policy", value_name = "NAMES", value_delimiter = ',', default_value = "round-robin,kv")]
    pub(crate) policies: Vec<String>,
    /// Requests of each run [default: 320; trace: 1000]
    #[arg(long, value_name = "COUNT")]
    pub(crate) requests: Option<NonZeroUsize>,
    /// End each run after this time, such as 30s; requests in flight may finish
    #[arg(long, value_name = "TIME", value_parser = config::parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// KV blocks of each engine, of 16 tokens or of the trace's 512 [default: 384; trace: 8000]
    #[arg(long, value_name = "BLOCKS")]
    pub(crate) kv_blocks: Option<NonZeroU32>,
    /// Replay a Mooncake trace (JSON lines, plain or gzip) instead of the built-in conversations
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// How much faster than recorded a trace goes, engines included; max: no delay
    #[arg(long, value_name = "FACTOR", default_value = "1", requires = "trace")]
    pub(crate) speed: Pace,
    /// Seed of prompts and answers
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// End after the final table instead of serving on until Ctrl-C
    #[arg(long)]
    pub(crate) once: bool,
    /// Print the result as JSON, and end after it
    #[arg(long)]
    pub(crate) json: bool,
}
