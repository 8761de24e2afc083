//! A port of loopback where nobody listens, and nobody else will.
//!
//! A port that a test has let go is given to the next one that asks for any, which may be an engine of another test. This
//! one stays taken by a socket that is bound and does not listen, so that connections to it are refused.

use std::net::{Ipv4Addr, SocketAddr};

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket};

/// Connections waiting for a listener to take them.
const BACKLOG: u32 = 1024;

/// A port that is kept, whether somebody listens there or not.
#[derive(Debug)]
pub struct ClosedPort {
    _holder: TcpSocket,
    address: SocketAddr,
}

// === impl ClosedPort ===

impl ClosedPort {
    /// Takes a free port of loopback.
    pub fn take() -> Self {
        let holder = socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let address = holder.local_addr().expect("a bound socket has an address");
        Self { _holder: holder, address }
    }

    /// Where nobody listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as the address of a worker.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Listens there until the listener is dropped; then connections are refused again.
    pub fn listen(&self) -> TcpListener {
        socket(self.address).listen(BACKLOG).expect("nobody else listens on a port that is kept")
    }
}

/// An address of loopback where nobody listens but who is told it, until this process ends: an engine that stopped must not
/// be followed at its address by one of another test.
pub fn kept_address() -> SocketAddr {
    static KEPT: Mutex<Vec<ClosedPort>> = Mutex::new(Vec::new());
    let port = ClosedPort::take();
    let address = port.address();
    KEPT.lock().push(port);
    address
}

/// Sockets of one port can be bound beside each other as long as all of them allow it and at most one listens.
fn socket(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket can be made");
    socket.set_reuseaddr(true).expect("a new socket takes options");
    socket.bind(address).unwrap_or_else(|error| panic!("{address} cannot be bound: {error}"));
    socket
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn connections_are_refused_until_somebody_listens_and_again_behind_that() {
        let port = ClosedPort::take();
        let refused = async || TcpStream::connect(port.address()).await.err().map(|error| error.kind());
        assert_eq!(refused().await, Some(ErrorKind::ConnectionRefused));
        let listener = port.listen();
        assert_eq!(refused().await, None);
        drop(listener);
        assert_eq!(refused().await, Some(ErrorKind::ConnectionRefused));
        let again = port.listen();
        assert_eq!(refused().await, None);
        drop(again);
    }
}
