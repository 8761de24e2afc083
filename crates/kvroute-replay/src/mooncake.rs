//! Reader of the Mooncake trace format: a JSON object a line, as published with the FAST'25 paper.
//!
//! A line names its blocks by ids that are already chained and lists the partial last block too. The reader is
//! strict about both numbers, because a trace of another block size would silently claim sharing that never
//! was.

use std::io::BufRead;
use std::path::Path;
use std::time::Duration;

use kvroute_core::{BlockSize, Tokens};
use serde::Deserialize;

use crate::lines::{each_line, open};
use crate::{LineFault, Trace, TraceError, TraceRequest};

/// Tokens that one id of a Mooncake trace stands for.
pub const MOONCAKE_BLOCK_SIZE: BlockSize = match BlockSize::new(512) {
    Ok(size) => size,
    Err(_) => unreachable!(),
};

/// A hundred years: past it, milliseconds are surely another unit.
const LATEST_MS: f64 = 100.0 * 365.0 * 86_400_000.0;

const EXPECTED: &str = "a request of a Mooncake trace";
const EXAMPLE: &str = "{\"timestamp\": ms, \"input_length\": n, \"output_length\": n, \"hash_ids\": [..]}";

#[derive(Deserialize)]
struct Line {
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
}

/// Reads a trace file, plain or gzip (told apart by content, not by name), at most `limit` requests of it.
pub fn read_mooncake_file(path: &Path, limit: Option<usize>) -> Result<Trace, TraceError> {
    read_mooncake(open(path)?, limit)
}

/// Reads at most `limit` requests of plain JSON lines. Blank lines are skipped, unknown fields ignored, an
/// `output_length` of 0 is read as 1 (an engine answers with one token at least); the result is in the order of
/// arrival, requests of equal time in the order of the file.
pub fn read_mooncake(reader: impl BufRead, limit: Option<usize>) -> Result<Trace, TraceError> {
    let mut requests = Vec::new();
    if limit != Some(0) {
        each_line(reader, |text| {
            requests.push(parse_line(text)?);
            Ok(limit.is_none_or(|limit| requests.len() < limit))
        })?;
    }
    if requests.is_empty() {
        return Err(TraceError::Empty { example: EXAMPLE });
    }
    requests.sort_by_key(|request| request.at);
    Ok(Trace { block_size: MOONCAKE_BLOCK_SIZE, requests })
}

fn parse_line(text: &str) -> Result<TraceRequest, LineFault> {
    let line: Line =
        serde_json::from_str(text).map_err(|source| LineFault::Json { expected: EXPECTED, source })?;
    if !(0.0..=LATEST_MS).contains(&line.timestamp) {
        return Err(LineFault::Timestamp(line.timestamp));
    }
    if line.input_length == 0 {
        return Err(LineFault::EmptyPrompt);
    }
    let input = Tokens::new(line.input_length);
    let needed = MOONCAKE_BLOCK_SIZE.occupied_blocks(input).get();
    if line.hash_ids.len() as u64 != needed {
        return Err(LineFault::BlockCount {
            found: line.hash_ids.len(),
            needed,
            input: line.input_length,
            block_size: MOONCAKE_BLOCK_SIZE.get(),
        });
    }
    Ok(TraceRequest {
        at: Duration::from_secs_f64(line.timestamp / 1000.0),
        input,
        output: Tokens::new(line.output_length.max(1)),
        blocks: line.hash_ids,
    })
}

#[cfg(test)]
mod tests;
