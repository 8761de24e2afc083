//! A body in pieces: what is edited in a long prompt costs no copy of the rest.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// The body of a request as its worker gets it, to be written piece by piece.
#[derive(Clone, Debug, Default)]
pub struct UpstreamBody(VecDeque<Bytes>);

// === impl UpstreamBody ===

impl UpstreamBody {
    /// All of it in one piece, which copies it if there are several.
    pub fn to_bytes(&self) -> Bytes {
        match self.0.len() {
            0 | 1 => self.0.front().cloned().unwrap_or_default(),
            _ => self.0.iter().flatten().copied().collect::<BytesMut>().freeze(),
        }
    }

    /// Appends a piece.
    pub(super) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.0.push_back(piece);
        }
    }
}

impl From<Bytes> for UpstreamBody {
    fn from(whole: Bytes) -> Self {
        let mut body = Self::default();
        body.push(whole);
        body
    }
}

impl Buf for UpstreamBody {
    fn remaining(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.0.front().map_or(&[], |piece| &piece[..])
    }

    fn chunks_vectored<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        let filled = out.iter_mut().zip(&self.0).map(|(slice, piece)| *slice = IoSlice::new(piece));
        filled.count()
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.remaining(), "there are less than {count} bytes left");
        while let Some(piece) = self.0.front_mut().filter(|_| count > 0) {
            let of_piece = count.min(piece.len());
            piece.advance(of_piece);
            count -= of_piece;
            if piece.is_empty() {
                self.0.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_read_as_the_whole_that_they_make(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..5),
            steps in prop::collection::vec(0usize..9, 0..12),
        ) {
            let whole = pieces.concat();
            let mut body = UpstreamBody::default();
            pieces.into_iter().for_each(|piece| body.push(piece.into()));
            prop_assert_eq!(&body.to_bytes(), &whole);
            let mut done = 0;
            for step in steps {
                let step = step.min(body.remaining());
                body.advance(step);
                done += step;
                let mut slices = [IoSlice::new(&[]); 8];
                let count = body.chunks_vectored(&mut slices);
                let written = slices[..count].iter().map(|slice| slice.to_vec()).collect::<Vec<_>>().concat();
                prop_assert_eq!(written, &whole[done..]);
                prop_assert_eq!(body.remaining(), whole.len() - done);
                prop_assert!(body.chunk().is_empty() == (done == whole.len()));
            }
        }
    }
}
