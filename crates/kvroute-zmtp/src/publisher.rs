//! PUB, bound: every subscriber gets every message of its topics, and none can hold up the publisher.
//!
//! As in libzmq, a subscriber that has a high-water mark of messages waiting loses the newest ones. The loss is
//! visible to it as a gap in the sequence that the messages carry.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::command::Command;
use crate::connection::{Connection, Received};
use crate::listener::{Incoming, Listener};
use crate::socket_type::SocketType;
use crate::{Endpoint, Message, ZmtpError};

/// A bound publisher. Dropping it closes every connection.
#[derive(Debug)]
pub struct Publisher {
    local_addr: SocketAddr,
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    peers: Mutex<Vec<Peer>>,
    high_water_mark: usize,
}

#[derive(Debug)]
struct Peer {
    id: u64,
    prefixes: Vec<Vec<u8>>,
    queue: mpsc::Sender<Message>,
}

// === impl Publisher ===

impl Publisher {
    /// Binds; `high_water_mark` is how many messages may wait for one subscriber, at least 1.
    pub async fn bind(endpoint: &Endpoint, high_water_mark: usize) -> Result<Self, ZmtpError> {
        let listener = Listener::bind(endpoint).await?;
        let local_addr = listener.local_addr();
        let shared = Arc::new(Shared { peers: Mutex::default(), high_water_mark: high_water_mark.max(1) });
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(accept_peers(listener, Arc::clone(&shared), tasks.clone(), stop.clone()));
        Ok(Self { local_addr, shared, tasks, stop })
    }

    /// The real address, with the port that the system chose.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Hands a message to every subscriber of its first frame; never waits.
    pub fn send(&self, message: &Message) {
        let Some(topic) = message.first() else { return };
        for peer in self.shared.peers.lock().iter().filter(|peer| peer.wants(topic)) {
            // A full queue drops the message, a closed one belongs to a peer that is just leaving.
            let _ = peer.queue.try_send(message.clone());
        }
    }

    /// Connected peers that have subscribed to something.
    pub fn subscribers(&self) -> usize {
        self.shared.peers.lock().iter().filter(|peer| !peer.prefixes.is_empty()).count()
    }

    /// Closes every connection and waits until the address is free. Messages still waiting are lost.
    pub async fn close(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

// === impl Shared ===

impl Shared {
    fn add(&self, id: u64) -> mpsc::Receiver<Message> {
        let (queue, waiting) = mpsc::channel(self.high_water_mark);
        self.peers.lock().push(Peer { id, prefixes: Vec::new(), queue });
        waiting
    }

    fn remove(&self, id: u64) {
        self.peers.lock().retain(|peer| peer.id != id);
    }

    fn change_subscription(&self, id: u64, change: &SubscriptionChange) {
        let mut peers = self.peers.lock();
        let Some(peer) = peers.iter_mut().find(|peer| peer.id == id) else { return };
        match change {
            SubscriptionChange::Add(prefix) => peer.prefixes.push(prefix.clone()),
            SubscriptionChange::Remove(prefix) => {
                if let Some(position) = peer.prefixes.iter().position(|known| known == prefix) {
                    peer.prefixes.swap_remove(position);
                }
            }
        }
    }
}

// === impl Peer ===

impl Peer {
    fn wants(&self, topic: &[u8]) -> bool {
        self.prefixes.iter().any(|prefix| topic.starts_with(prefix))
    }
}

/// What a peer's message or command changes of its subscriptions.
pub(crate) enum SubscriptionChange {
    Add(Vec<u8>),
    Remove(Vec<u8>),
}

// === impl SubscriptionChange ===

impl SubscriptionChange {
    /// Subscriptions come as messages from 3.0 peers (first byte 1 or 0), as commands from 3.1 peers.
    pub(crate) fn read(received: Received) -> Option<Self> {
        match received {
            Received::Command(Command::Subscribe { prefix }) => Some(Self::Add(prefix.to_vec())),
            Received::Command(Command::Cancel { prefix }) => Some(Self::Remove(prefix.to_vec())),
            Received::Command(_) => None,
            Received::Message(message) => match message.first()?.split_first()? {
                (1, prefix) => Some(Self::Add(prefix.to_vec())),
                (0, prefix) => Some(Self::Remove(prefix.to_vec())),
                _ => None,
            },
        }
    }

    /// What is subscribed to, or no longer.
    pub(crate) fn into_prefix(self) -> Vec<u8> {
        let (Self::Add(prefix) | Self::Remove(prefix)) = self;
        prefix
    }
}

async fn accept_peers(listener: Listener, shared: Arc<Shared>, tasks: TaskTracker, stop: CancellationToken) {
    for id in 0.. {
        let Some(incoming) = stop.run_until_cancelled(listener.accept()).await else { return };
        let (shared, stop) = (Arc::clone(&shared), stop.clone());
        tasks.spawn(async move {
            let _ = stop.run_until_cancelled(serve_peer(incoming, id, &shared)).await;
            shared.remove(id);
        });
    }
}

async fn serve_peer(incoming: Incoming, id: u64, shared: &Shared) -> Result<(), ZmtpError> {
    let mut connection = incoming.greet(SocketType::Publisher).await?;
    let mut waiting = shared.add(id);
    loop {
        tokio::select! {
            received = connection.receive() => {
                if let Some(change) = SubscriptionChange::read(received?) {
                    shared.change_subscription(id, &change);
                }
            }
            message = waiting.recv() => {
                let Some(message) = message else { return Ok(()) };
                send_waiting(&mut connection, &message, &mut waiting).await?;
            }
        }
    }
}

async fn send_waiting(
    connection: &mut Connection,
    first: &Message,
    waiting: &mut mpsc::Receiver<Message>,
) -> Result<(), ZmtpError> {
    let mut is_full = connection.enqueue(first);
    while !is_full && let Ok(message) = waiting.try_recv() {
        is_full = connection.enqueue(&message);
    }
    connection.flush().await
}
