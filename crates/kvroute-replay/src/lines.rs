//! Lines of a trace file, plain or compressed.
//!
//! Read one at a time: a trace may be larger than memory likes, its requests are not.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::{LineFault, TraceError};

/// The first two bytes of every gzip member.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Opens a trace file, plain or gzip, told apart by content and not by name.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>, TraceError> {
    let open_error = |source| TraceError::Open { path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(open_error)?);
    let head = reader.fill_buf().map_err(open_error)?;
    if head.starts_with(&GZIP_MAGIC) {
        return Ok(Box::new(BufReader::new(MultiGzDecoder::new(reader))));
    }
    Ok(Box::new(reader))
}

/// Reads line by line until `take` has enough, which it says by `false`. Blank lines are skipped. A fault is returned
/// with the number of its line.
pub(crate) fn each_line(
    reader: impl BufRead,
    mut take: impl FnMut(&str) -> Result<bool, LineFault>,
) -> Result<(), TraceError> {
    for (index, text) in reader.lines().enumerate() {
        let line = index + 1;
        let text = text.map_err(|source| TraceError::Read { line, source })?;
        if text.trim().is_empty() {
            continue;
        }
        if !take(&text).map_err(|fault| TraceError::Line { line, fault })? {
            return Ok(());
        }
    }
    Ok(())
}
