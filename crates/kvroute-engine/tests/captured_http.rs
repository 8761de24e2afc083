//! Probing, tokenizing and asking for load over HTTP, against bytes that real engines sent.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "captured_http/captured_server.rs"]
mod captured_server;
#[path = "captured_http/load.rs"]
mod load;
#[path = "captured_http/probe.rs"]
mod probe;
#[path = "captured_http/token_ids.rs"]
mod token_ids;
#[path = "captured_http/tokenize_remote.rs"]
mod tokenize_remote;
