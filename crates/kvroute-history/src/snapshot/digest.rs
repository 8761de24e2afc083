//! A stream whose bytes are digested on their way.

use std::io::{self, Read, Write};

use xxhash_rust::xxh3::Xxh3;

/// Digests everything that is read or written.
pub(super) struct Digested<S> {
    stream: S,
    digest: Box<Xxh3>,
}

// === impl Digested ===

impl<S> Digested<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, digest: Box::new(Xxh3::new()) }
    }

    /// The stream, and the digest of everything so far.
    pub(super) fn finish(self) -> (S, u128) {
        (self.stream, self.digest.digest128())
    }
}

impl<W: Write> Write for Digested<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stream.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl<R: Read> Read for Digested<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(bytes)?;
        self.digest.update(&bytes[..read]);
        Ok(read)
    }
}
