//! Reading a snapshot that anybody may have written.
//!
//! No count is believed beyond its limit, so no input makes the reader allocate more than some hundred KiB, whatever its
//! length.

use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Deref;
use std::time::Duration;

use kvroute_core::{Blocks, SequenceHash};

use super::digest::Digested;
use super::{
    CHECKSUM, LARGEST_PIECE, LONGEST_TEXT, MAGIC, MOST_MARKS, MOST_SECTIONS, Restored, SnapshotError, VERSION,
};
use crate::{AgeMark, Domain, History};

/// Bytes that are read at once.
const BUFFER: usize = 1 << 16;

/// A position in the content, which ends where the checksum begins.
struct Content<R> {
    input: R,
    at: u64,
    end: u64,
}

/// Reads a file that [`write_snapshot`](super::write_snapshot) wrote, of at most `longest` bytes, and teaches its hashes to
/// the history that `accept` gives for their domain; a section without one is passed over. Where a history is smaller than
/// its section, the oldest go.
///
/// # Errors
/// If the file is anything else. Unless it could not be read any more the second time, nothing was taught then.
pub fn read_snapshot<H: Deref<Target = History>>(
    input: &mut (impl Read + Seek),
    longest: u64,
    accept: impl FnMut(&Domain) -> Option<H>,
) -> Result<Vec<Restored>, SnapshotError> {
    read_snapshot_while(input, longest, accept, || true)
}

/// The same, for as long as it is wanted: `is_wanted` is asked before each piece of a few ten thousand hashes is taught.
///
/// # Errors
/// As [`read_snapshot`], and [`SnapshotError::Stopped`] once it is not wanted any more; a part was taught then.
pub fn read_snapshot_while<H: Deref<Target = History>>(
    input: &mut (impl Read + Seek),
    longest: u64,
    mut accept: impl FnMut(&Domain) -> Option<H>,
    is_wanted: impl Fn() -> bool,
) -> Result<Vec<Restored>, SnapshotError> {
    let end = content_end(input, longest)?;
    check(input, end)?;
    input.seek(SeekFrom::Start(0))?;
    let mut content = Content { input: BufReader::with_capacity(BUFFER, input), at: 0, end };
    content.sections(|domain| accept(domain), &is_wanted)
}

fn content_end(input: &mut impl Seek, longest: u64) -> Result<u64, SnapshotError> {
    let bytes = input.seek(SeekFrom::End(0))?;
    if bytes > longest {
        return Err(SnapshotError::TooLong { bytes, longest });
    }
    input.seek(SeekFrom::Start(0))?;
    Ok(bytes.saturating_sub(CHECKSUM as u64))
}

/// Kind and version come first: another version may end in another way. Then the checksum, and what it covers.
fn check(input: &mut (impl Read + Seek), end: u64) -> Result<(), SnapshotError> {
    let digested = BufReader::with_capacity(BUFFER, Digested::new(input.take(end)));
    let mut content = Content { input: digested, at: 0, end };
    let form = content.sections(|_| None::<&History>, &|| true);
    if let Err(error @ (SnapshotError::Io(_) | SnapshotError::NotASnapshot | SnapshotError::Version { .. })) =
        form
    {
        return Err(error);
    }
    content.skip_rest()?;
    let (input, digest) = content.input.into_inner().finish();
    let mut checksum = [0; CHECKSUM];
    let whole = input.into_inner().read_exact(&mut checksum).is_ok();
    if !whole || u128::from_le_bytes(checksum) != digest {
        return Err(SnapshotError::Checksum);
    }
    form.map(|_| ())
}

// === impl Content ===

impl<R: Read> Content<R> {
    fn sections<H: Deref<Target = History>>(
        &mut self,
        mut accept: impl FnMut(&Domain) -> Option<H>,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Vec<Restored>, SnapshotError> {
        self.header()?;
        let count = self.count(MOST_SECTIONS, "too many sections")?;
        let mut restored = Vec::new();
        for _ in 0..count {
            let (domain, ages) = (self.domain()?, self.marks()?);
            let history = accept(&domain);
            let (hashes, taught) = self.hashes(history.as_deref(), is_wanted)?;
            restored.push(Restored { domain, ages, hashes, taught });
        }
        if self.at < self.end {
            return Err(self.malformed("something stands behind the last section"));
        }
        Ok(restored)
    }

    fn header(&mut self) -> Result<(), SnapshotError> {
        let kind = self.take::<8>();
        if !matches!(&kind, Ok(magic) if magic == MAGIC) {
            return Err(match kind {
                Err(error @ SnapshotError::Io(_)) => error,
                _ => SnapshotError::NotASnapshot,
            });
        }
        match u32::from_le_bytes(self.take()?) {
            VERSION => Ok(()),
            found => Err(SnapshotError::Version { found }),
        }
    }

    fn domain(&mut self) -> Result<Domain, SnapshotError> {
        Ok(Domain {
            model: self.text()?,
            block_size: u32::from_le_bytes(self.take()?),
            hash_scheme: self.text()?,
            namespace_scheme: self.text()?,
        })
    }

    fn marks(&mut self) -> Result<Vec<AgeMark>, SnapshotError> {
        let count = self.count(MOST_MARKS, "too many marks")?;
        (0..count).map(|_| self.mark()).collect()
    }

    fn mark(&mut self) -> Result<AgeMark, SnapshotError> {
        let age = Duration::from_nanos(u64::from_le_bytes(self.take()?));
        Ok(AgeMark { age, taught_since: u64::from_le_bytes(self.take()?) })
    }

    /// How many there are, and how many of them the history took.
    fn hashes(
        &mut self,
        history: Option<&History>,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<(Blocks, Option<Blocks>), SnapshotError> {
        let (mut hashes, mut taught) = (Blocks::ZERO, history.map(|_| Blocks::ZERO));
        let (mut piece, mut bytes) = (Vec::new(), Vec::new());
        loop {
            let count = self.count(LARGEST_PIECE, "too many hashes in a piece")?;
            if count == 0 {
                return Ok((hashes, taught));
            }
            bytes.resize(count as usize * size_of::<u64>(), 0);
            self.fill(&mut bytes)?;
            piece.clear();
            piece.extend(
                bytes.as_chunks().0.iter().map(|hash| SequenceHash::from_raw(u64::from_le_bytes(*hash))),
            );
            hashes += Blocks::from(piece.len());
            if let (Some(history), Some(taught)) = (history, &mut taught) {
                if !is_wanted() {
                    return Err(SnapshotError::Stopped);
                }
                *taught += history.teach(&piece);
            }
        }
    }

    fn text(&mut self) -> Result<String, SnapshotError> {
        let bytes = self.count(LONGEST_TEXT, "a name that is too long")?;
        let mut text = vec![0; bytes as usize];
        self.fill(&mut text)?;
        String::from_utf8(text).map_err(|_| self.malformed("a name is not UTF-8"))
    }

    fn count(&mut self, most: u32, too_many: &'static str) -> Result<u32, SnapshotError> {
        let count = u32::from_le_bytes(self.take()?);
        if count > most { Err(self.malformed(too_many)) } else { Ok(count) }
    }

    fn take<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], SnapshotError> {
        let mut taken = [0; BYTES];
        self.fill(&mut taken)?;
        Ok(taken)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), SnapshotError> {
        if self.end - self.at < bytes.len() as u64 {
            return Err(self.malformed("the content ends too early"));
        }
        self.input.read_exact(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// So that everything is digested, whatever stopped the reading before.
    fn skip_rest(&mut self) -> Result<(), SnapshotError> {
        let rest = self.end - self.at;
        let skipped = std::io::copy(&mut (&mut self.input).take(rest), &mut std::io::sink())?;
        if skipped < rest { Err(std::io::Error::from(ErrorKind::UnexpectedEof).into()) } else { Ok(()) }
    }

    const fn malformed(&self, what: &'static str) -> SnapshotError {
        SnapshotError::Malformed { at: self.at, what }
    }
}
