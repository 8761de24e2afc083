//! A follower on real sockets: against libzmq where `KVROUTE_PYTHON` names a Python with `pyzmq`, and against this
//! workspace's own sockets always.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "event_follower/followed.rs"]
mod followed;
#[path = "event_follower/http_server.rs"]
mod http_server;
#[path = "event_follower/libzmq.rs"]
mod libzmq;
#[path = "event_follower/own_sockets.rs"]
mod own_sockets;
#[path = "../../kvroute-zmtp/tests/support/peer.rs"]
mod peer;
#[path = "event_follower/polled.rs"]
mod polled;
