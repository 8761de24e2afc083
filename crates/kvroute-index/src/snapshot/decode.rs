//! Reading a snapshot that anybody may have written.
//!
//! A count is believed only as far as what is left of the input could hold it, so no input makes the reader
//! allocate more than a small multiple of its own size.

use kvroute_core::{BlockSize, LastMessage, SequenceHash, Tier};
use xxhash_rust::xxh3::xxh3_128;

use super::{CHECKSUM, MAGIC, RankSnapshot, Snapshot, SnapshotError, VERSION, tier_code};
use crate::{ExportedBlock, ExportedRun, RankExport};

/// The least that a rank, a run and a block take.
const LEAST_RANK: usize = 8 + 8 + 4 + 1 + 4 + 8;
const LEAST_RUN: usize = 1 + 8;
const BLOCK: usize = 8 + 8;

/// A position in the content, which is known to be what was written.
struct Reader<'a> {
    content: &'a [u8],
    at: usize,
}

// === impl Snapshot ===

impl Snapshot {
    /// Reads what [`Snapshot::encode`] wrote.
    ///
    /// # Errors
    /// If the bytes are anything else, the first thing that is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let content = checked_content(bytes)?;
        let mut reader = Reader { content, at: MAGIC.len() + size_of_val(&VERSION) };
        let count = reader.count(LEAST_RANK, "more ranks than bytes")?;
        let ranks = (0..count).map(|_| reader.rank()).collect::<Result<_, _>>()?;
        if reader.at < content.len() {
            return Err(reader.malformed("something stands behind the last rank"));
        }
        Ok(Self { ranks })
    }
}

/// Everything before the checksum, once kind, version and checksum are right. The version comes first: another one may
/// end in another way.
fn checked_content(bytes: &[u8]) -> Result<&[u8], SnapshotError> {
    let versioned = bytes.strip_prefix(MAGIC).ok_or(SnapshotError::NotASnapshot)?;
    let (version, behind) = versioned.split_first_chunk().ok_or(SnapshotError::Checksum)?;
    let found = u32::from_le_bytes(*version);
    if found != VERSION {
        return Err(SnapshotError::Version { found });
    }
    let (_, checksum) = behind.split_last_chunk().ok_or(SnapshotError::Checksum)?;
    let content = &bytes[..bytes.len() - CHECKSUM];
    if xxh3_128(content) != u128::from_le_bytes(*checksum) {
        return Err(SnapshotError::Checksum);
    }
    Ok(content)
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn rank(&mut self) -> Result<RankSnapshot, SnapshotError> {
        let model = self.text()?;
        let worker = self.text()?;
        let dp_rank = u32::from_le_bytes(self.take()?);
        let last = self.last()?;
        let block_size = self.block_size()?;
        let count = self.count(LEAST_RUN, "more runs than bytes")?;
        let runs = (0..count).map(|_| self.run()).collect::<Result<_, _>>()?;
        Ok(RankSnapshot { model, worker, dp_rank, last, export: RankExport { block_size, runs } })
    }

    fn last(&mut self) -> Result<Option<LastMessage>, SnapshotError> {
        match self.take::<1>()? {
            [0] => Ok(None),
            [1] => Ok(Some(LastMessage { sequence: self.number()?, content: self.number()? })),
            _ => Err(self.malformed("a last message is there or not")),
        }
    }

    fn block_size(&mut self) -> Result<Option<BlockSize>, SnapshotError> {
        match u32::from_le_bytes(self.take()?) {
            0 => Ok(None),
            size => BlockSize::new(size).map(Some).map_err(|_| self.malformed("no engine has such blocks")),
        }
    }

    fn run(&mut self) -> Result<ExportedRun, SnapshotError> {
        let [code] = self.take()?;
        let tier = Tier::ALL.into_iter().find(|tier| tier_code(*tier) == code);
        let tier = tier.ok_or_else(|| self.malformed("an unknown tier"))?;
        let count = self.count(BLOCK, "more blocks than bytes")?;
        let blocks = (0..count).map(|_| self.block()).collect::<Result<_, _>>()?;
        Ok(ExportedRun { tier, blocks })
    }

    fn block(&mut self) -> Result<ExportedBlock, SnapshotError> {
        Ok(ExportedBlock { engine_key: self.number()?, sequence: SequenceHash::from_raw(self.number()?) })
    }

    fn text(&mut self) -> Result<String, SnapshotError> {
        let bytes = self.count(1, "a name longer than the file")?;
        let text = self.slice(bytes)?;
        let text = std::str::from_utf8(text).map_err(|_| self.malformed("a name is not UTF-8"))?;
        Ok(text.to_owned())
    }

    /// A count of things that take so many bytes at least.
    fn count(&mut self, least: usize, too_many: &'static str) -> Result<usize, SnapshotError> {
        let count = self.number()?;
        let possible = (self.content.len() - self.at) / least;
        usize::try_from(count).ok().filter(|count| *count <= possible).ok_or_else(|| self.malformed(too_many))
    }

    fn number(&mut self) -> Result<u64, SnapshotError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn take<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], SnapshotError> {
        let taken = self.content[self.at..].first_chunk().copied();
        let taken = taken.ok_or_else(|| self.malformed("the content ends too early"))?;
        self.at += BYTES;
        Ok(taken)
    }

    fn slice(&mut self, bytes: usize) -> Result<&'a [u8], SnapshotError> {
        let taken = self.content[self.at..].get(..bytes);
        let taken = taken.ok_or_else(|| self.malformed("the content ends too early"))?;
        self.at += bytes;
        Ok(taken)
    }

    const fn malformed(&self, what: &'static str) -> SnapshotError {
        SnapshotError::Malformed { at: self.at, what }
    }
}
