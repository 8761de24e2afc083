//! Bytes in pieces of changing size.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// Cuts bytes into pieces whose sizes follow from two bytes of the input.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    rest: &'a [u8],
    state: u32,
    longest: u32,
}

/// The pieces as a stream that brings one of them with each read.
#[derive(Debug)]
pub struct PieceReader<'a> {
    pieces: Pieces<'a>,
    current: &'a [u8],
}

// === impl Pieces ===

impl<'a> Pieces<'a> {
    /// Pieces of 1 to `longest` bytes; 0 as `longest` makes one piece of all.
    pub fn new(bytes: &'a [u8], seed: u8, longest: u8) -> Self {
        Self { rest: bytes, state: u32::from(seed) + 1, longest: u32::from(longest) }
    }

    /// All bytes in one piece.
    pub fn whole(bytes: &'a [u8]) -> Self {
        Self::new(bytes, 0, 0)
    }

    fn next_length(&mut self) -> usize {
        if self.longest == 0 {
            return self.rest.len();
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        1 + (self.state % self.longest) as usize
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let length = self.next_length().min(self.rest.len());
        let (piece, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(piece)
    }
}

// === impl PieceReader ===

impl<'a> PieceReader<'a> {
    /// Reads these pieces, then the end.
    pub fn new(pieces: Pieces<'a>) -> Self {
        Self { pieces, current: &[] }
    }
}

impl AsyncRead for PieceReader<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.current.is_empty() {
            self.current = self.pieces.next().unwrap_or_default();
        }
        let (now, later) = self.current.split_at(self.current.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.current = later;
        Poll::Ready(Ok(()))
    }
}
