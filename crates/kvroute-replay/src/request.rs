//! One recorded request, without any text.

use std::time::Duration;

use kvroute_core::{BlockSize, Tokens};

/// A recorded workload, in the order of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Tokens that one block id stands for.
    pub block_size: BlockSize,
    /// The requests, earliest first.
    pub requests: Vec<TraceRequest>,
}

/// What is known of one recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Arrival, as an offset from the start of the trace.
    pub at: Duration,
    /// Prompt length; never zero.
    pub input: Tokens,
    /// Answer length; never zero.
    pub output: Tokens,
    /// One id a block of the prompt; the partial last one is included or not, as the trace has it. Ids are chained:
    /// equal ids at one position mean equal prompts up to and with that block.
    pub blocks: Vec<u64>,
}

// === impl Trace ===

impl Trace {
    /// Sum of the prompts' lengths.
    pub fn input(&self) -> Tokens {
        self.requests.iter().map(|request| request.input).sum()
    }
}

// === impl TraceRequest ===

impl TraceRequest {
    /// Ids of the complete blocks. A trace may list the partial last block too, but no engine can reuse it, so
    /// counting `blocks.len() × block_size` would overstate what is shared.
    pub fn complete_blocks(&self, block_size: BlockSize) -> &[u64] {
        let complete = block_size.complete_blocks(self.input).get() as usize;
        &self.blocks[..complete.min(self.blocks.len())]
    }
}
