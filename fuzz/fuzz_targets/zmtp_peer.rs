//! A peer of a ZeroMQ socket, from its greeting on: what is heard does not depend on how the network cuts it.
//!
//! The first byte chooses the socket, the next two the cuts.

#![no_main]

use std::sync::LazyLock;

use kvroute_fuzz::{PieceReader, Pieces};
use kvroute_zmtp::fuzz::{Heard, listen};
use libfuzzer_sys::fuzz_target;
use tokio::io::{join, sink};
use tokio::runtime::{Builder, Runtime};

/// Handshakes have a time limit, so there must be a clock.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

fuzz_target!(|input: &[u8]| {
    let [socket, seed, longest, sent @ ..] = input else { return };
    let heard = hear(*socket, Pieces::new(sent, *seed, *longest));
    let at_once = hear(*socket, Pieces::whole(sent));
    assert_eq!(heard.messages, at_once.messages);
    assert_eq!(heard.prefixes, at_once.prefixes);
    assert_eq!(heard.end.to_string(), at_once.end.to_string());
    assert!(heard.messages.iter().all(|message| !message.is_empty()));
    assert!(heard.messages.iter().flatten().map(|frame| frame.len()).sum::<usize>() <= sent.len());
});

fn hear(socket: u8, pieces: Pieces<'_>) -> Heard {
    RUNTIME.block_on(listen(join(PieceReader::new(pieces), sink()), socket))
}
