//! Something between a replica and its server that can stand still and break, as a network does.

use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// Passes bytes both ways unless it stands still.
pub(crate) struct Relay {
    port: u16,
    flows: watch::Sender<bool>,
    cut: Arc<Notify>,
    _tasks: JoinSet<()>,
}

// === impl Relay ===

impl Relay {
    pub(crate) async fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (port, (flows, flowing)) = (listener.local_addr().unwrap().port(), watch::channel(true));
        let (mut tasks, cut) = (JoinSet::new(), Arc::<Notify>::default());
        tasks.spawn(accept(listener, server, flowing, Arc::clone(&cut)));
        Self { port, flows, cut, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) fn stand_still(&self) {
        self.flows.send_replace(false);
    }

    pub(crate) fn flow(&self) {
        self.flows.send_replace(true);
    }

    /// Ends every connection; new ones are taken.
    pub(crate) fn cut(&self) {
        self.cut.notify_one();
    }
}

async fn accept(listener: TcpListener, server: u16, flowing: watch::Receiver<bool>, cut: Arc<Notify>) {
    let mut connections = JoinSet::new();
    loop {
        let client = tokio::select! {
            Ok((client, _)) = listener.accept() => client,
            () = cut.notified() => {
                connections.abort_all();
                continue;
            }
        };
        let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await else { continue };
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        connections.spawn(pass(from_client, to_server, flowing.clone()));
        connections.spawn(pass(from_server, to_client, flowing.clone()));
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut flowing: watch::Receiver<bool>) {
    let mut buffer = vec![0; 4096];
    while flowing.wait_for(|flows| *flows).await.is_ok() {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) if to.write_all(&buffer[..read]).await.is_err() => return,
            Ok(_) => {}
        }
    }
}
