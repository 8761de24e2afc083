//! Writing a snapshot.

use kvroute_core::BlockSize;
use xxhash_rust::xxh3::xxh3_128;

use super::{CHECKSUM, MAGIC, RankSnapshot, Snapshot, VERSION, tier_code};
use crate::ExportedRun;

// === impl Snapshot ===

impl Snapshot {
    /// The whole snapshot as bytes: 16 a block, and little beside.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        put_count(&mut bytes, self.ranks.len());
        for rank in &self.ranks {
            put_rank(&mut bytes, rank);
        }
        let checksum = xxh3_128(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Never less than what is written, so that a large snapshot is allocated once.
    pub(super) fn encoded_len(&self) -> usize {
        let run = |run: &ExportedRun| 9 + 16 * run.blocks.len();
        let rank = |rank: &RankSnapshot| {
            49 + rank.model.len() + rank.worker.len() + rank.export.runs.iter().map(run).sum::<usize>()
        };
        20 + self.ranks.iter().map(rank).sum::<usize>() + CHECKSUM
    }
}

fn put_rank(bytes: &mut Vec<u8>, rank: &RankSnapshot) {
    put_text(bytes, &rank.model);
    put_text(bytes, &rank.worker);
    bytes.extend_from_slice(&rank.dp_rank.to_le_bytes());
    bytes.push(u8::from(rank.last.is_some()));
    if let Some(last) = rank.last {
        bytes.extend_from_slice(&last.sequence.to_le_bytes());
        bytes.extend_from_slice(&last.content.to_le_bytes());
    }
    let block_size = rank.export.block_size.map_or(0, BlockSize::get);
    bytes.extend_from_slice(&block_size.to_le_bytes());
    put_count(bytes, rank.export.runs.len());
    for run in &rank.export.runs {
        put_run(bytes, run);
    }
}

fn put_run(bytes: &mut Vec<u8>, run: &ExportedRun) {
    bytes.push(tier_code(run.tier));
    put_count(bytes, run.blocks.len());
    for block in &run.blocks {
        bytes.extend_from_slice(&block.engine_key.to_le_bytes());
        bytes.extend_from_slice(&block.sequence.get().to_le_bytes());
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_count(bytes, text.len());
    bytes.extend_from_slice(text.as_bytes());
}

fn put_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend_from_slice(&(count as u64).to_le_bytes());
}
