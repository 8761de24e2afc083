//! Token ids against those of engines and of the reference libraries, with real tokenizers and templates.
//!
//! They are too large for the repository: `KVROUTE_TOKENIZERS` names a folder with one folder a model,
//! `KVROUTE_CHAT_TEMPLATES` one with templates, `KVROUTE_REFERENCE_PYTHON` a Python with the libraries. Without them
//! these tests say so and pass, unless `KVROUTE_REQUIRE_PEERS=1` is set.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    reason = "a broken capture or peer must fail the test; ids fit"
)]

#[path = "parity/chats.rs"]
mod chats;
#[path = "parity/encoding.rs"]
mod encoding;
#[path = "parity/engines.rs"]
mod engines;
#[path = "parity/peers.rs"]
mod peers;
#[path = "parity/random.rs"]
mod random;
#[path = "parity/reference.rs"]
mod reference;
#[path = "parity/rendering.rs"]
mod rendering;
#[path = "parity/texts.rs"]
mod texts;
