//! ROUTER, bound: takes requests from many peers and answers each one by its id.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::Received;
use crate::listener::{Incoming, Listener};
use crate::socket_type::SocketType;
use crate::{Endpoint, Message, ZmtpError};

/// Requests that wait for [`Router::receive`]; beyond it they are dropped, as libzmq does at its mark. Were their
/// connection to wait instead, it could not send the answers that its owner waits to hand over.
const WAITING_REQUESTS: usize = 1024;
/// Answers that wait for one peer; beyond it [`Router::send`] waits.
const WAITING_ANSWERS: usize = 1024;

/// Names one connection of a router for as long as it lives; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerId(u64);

/// A bound router. Dropping it closes every connection.
#[derive(Debug)]
pub struct Router {
    local_addr: SocketAddr,
    requests: mpsc::Receiver<(PeerId, Message)>,
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    peers: Mutex<Vec<(PeerId, mpsc::Sender<Message>)>>,
    requests: mpsc::Sender<(PeerId, Message)>,
}

// === impl Router ===

impl Router {
    /// Binds an address.
    pub async fn bind(endpoint: &Endpoint) -> Result<Self, ZmtpError> {
        let listener = Listener::bind(endpoint).await?;
        let local_addr = listener.local_addr();
        let (sender, requests) = mpsc::channel(WAITING_REQUESTS);
        let shared = Arc::new(Shared { peers: Mutex::default(), requests: sender });
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(accept_peers(listener, Arc::clone(&shared), tasks.clone(), stop.clone()));
        Ok(Self { local_addr, requests, shared, tasks, stop })
    }

    /// The real address, with the port that the system chose.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The next message of any peer, as sent, without an identity frame; cancel-safe. Pends while there is none.
    pub async fn receive(&mut self) -> (PeerId, Message) {
        match self.requests.recv().await {
            Some(request) => request,
            // The router itself keeps a sender, so the channel cannot be closed.
            None => std::future::pending().await,
        }
    }

    /// Sends to one peer, waiting for room (a peer that never reads makes it wait for ever); false when the peer
    /// is gone.
    pub async fn send(&self, peer: PeerId, message: Message) -> bool {
        let queue = {
            let peers = self.shared.peers.lock();
            peers.iter().find(|(id, _)| *id == peer).map(|(_, queue)| queue.clone())
        };
        match queue {
            Some(queue) => queue.send(message).await.is_ok(),
            None => false,
        }
    }

    /// Closes every connection and waits until the address is free. Answers still waiting are lost.
    pub async fn close(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept_peers(listener: Listener, shared: Arc<Shared>, tasks: TaskTracker, stop: CancellationToken) {
    for id in (0..).map(PeerId) {
        let Some(incoming) = stop.run_until_cancelled(listener.accept()).await else { return };
        let (shared, stop) = (Arc::clone(&shared), stop.clone());
        tasks.spawn(async move {
            let _ = stop.run_until_cancelled(serve_peer(incoming, id, &shared)).await;
            shared.peers.lock().retain(|(known, _)| *known != id);
        });
    }
}

async fn serve_peer(incoming: Incoming, id: PeerId, shared: &Shared) -> Result<(), ZmtpError> {
    let mut connection = incoming.greet(SocketType::Router).await?;
    let (queue, mut answers) = mpsc::channel(WAITING_ANSWERS);
    shared.peers.lock().push((id, queue));
    loop {
        tokio::select! {
            received = connection.receive() => {
                if let Received::Message(message) = received? {
                    let _ = shared.requests.try_send((id, message));
                }
            }
            answer = answers.recv() => {
                let Some(answer) = answer else { return Ok(()) };
                connection.enqueue(&answer);
                connection.flush().await?;
            }
        }
    }
}
