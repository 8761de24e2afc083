//! Writing a snapshot.

use std::io::{self, Write};

use super::digest::Digested;
use super::{LARGEST_PIECE, MAGIC, MOST_MARKS, Section, VERSION};
use crate::{AgeMark, Domain, ExportCursor, History};

/// Writes what the histories hold. It copies a few thousand hashes at a time and holds up nobody; `out` should have a buffer.
///
/// # Errors
/// If writing fails, or a domain's name is longer than the format allows.
pub fn write_snapshot(out: &mut impl Write, sections: &[Section<'_>]) -> io::Result<()> {
    let mut out = Digested::new(out);
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    put_count(&mut out, sections.len(), super::MOST_SECTIONS)?;
    for section in sections {
        put_domain(&mut out, section.domain)?;
        put_marks(&mut out, &section.ages)?;
        put_hashes(&mut out, section.history)?;
    }
    let (out, checksum) = out.finish();
    out.write_all(&checksum.to_le_bytes())?;
    out.flush()
}

fn put_domain(out: &mut impl Write, domain: &Domain) -> io::Result<()> {
    put_text(out, &domain.model)?;
    out.write_all(&domain.block_size.to_le_bytes())?;
    put_text(out, &domain.hash_scheme)?;
    put_text(out, &domain.namespace_scheme)
}

fn put_marks(out: &mut impl Write, marks: &[AgeMark]) -> io::Result<()> {
    put_count(out, marks.len(), MOST_MARKS)?;
    for mark in marks {
        let nanos = u64::try_from(mark.age.as_nanos()).unwrap_or(u64::MAX);
        out.write_all(&nanos.to_le_bytes())?;
        out.write_all(&mark.taught_since.to_le_bytes())?;
    }
    Ok(())
}

fn put_hashes(out: &mut impl Write, history: &History) -> io::Result<()> {
    let (mut piece, mut bytes) = (Vec::new(), Vec::new());
    let mut next = Some(ExportCursor::default());
    while let Some(cursor) = next {
        piece.clear();
        next = history.export(cursor, &mut piece);
        if piece.is_empty() {
            continue;
        }
        put_count(out, piece.len(), LARGEST_PIECE)?;
        bytes.clear();
        bytes.extend(piece.iter().flat_map(|hash| hash.get().to_le_bytes()));
        out.write_all(&bytes)?;
    }
    put_count(out, 0, 0)
}

fn put_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    put_count(out, text.len(), super::LONGEST_TEXT)?;
    out.write_all(text.as_bytes())
}

fn put_count(out: &mut impl Write, count: usize, most: u32) -> io::Result<()> {
    let fitting = u32::try_from(count).ok().filter(|count| *count <= most);
    let count = fitting.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{count} of a kind of which there may be {most}"))
    })?;
    out.write_all(&count.to_le_bytes())
}
