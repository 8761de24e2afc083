//! Somebody who speaks to replicas by hand: what they must stand from anybody who may write to the subject.

use async_nats::{Client, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use kvroute_cluster::message::{self, DomainRef, Offer, Origin};
use kvroute_core::Blocks;
use kvroute_history::Domain;
use tokio::time::timeout;

use super::server::{BETWEEN_LOOKS, LOOKS, Server};

pub(crate) const SUBJECT: &str = "cache-history-v1";

/// A client with all that is told to everybody, and what is told to it alone.
pub(crate) struct Outsider {
    client: Client,
    pub(crate) origin: Origin,
    broadcast: Subscriber,
    inbox: Subscriber,
}

// === impl Outsider ===

impl Outsider {
    pub(crate) async fn at(server: &Server) -> Self {
        let client = async_nats::connect(server.url()).await.unwrap();
        Self::with(client, Origin::random()).await
    }

    async fn with(client: Client, origin: Origin) -> Self {
        let broadcast = client.subscribe(SUBJECT).await.unwrap();
        let inbox = client.subscribe(inbox_of(origin)).await.unwrap();
        // What comes back shows that the server knows the subscriptions.
        let probe = format!("probe.{}", Origin::random());
        let mut probed = client.subscribe(probe.clone()).await.unwrap();
        client.publish(probe, "".into()).await.unwrap();
        probed.next().await.unwrap();
        Self { client, origin, broadcast, inbox }
    }

    /// Hears from now on what this one hears.
    pub(crate) async fn another(&self) -> Self {
        Self::with(self.client.clone(), self.origin).await
    }

    /// Whether nothing waits that was told to it alone.
    pub(crate) fn has_nothing_of_its_own(&mut self) -> bool {
        self.inbox.next().now_or_never().is_none()
    }

    pub(crate) async fn tell_all(&self, message: impl Into<Bytes>) {
        self.tell(SUBJECT.to_owned(), message).await;
    }

    pub(crate) async fn tell(&self, subject: String, message: impl Into<Bytes>) {
        self.client.publish(subject, message.into()).await.unwrap();
        self.client.flush().await.unwrap();
    }

    /// Says that it is a replica that knows so much.
    pub(crate) async fn offer(&self, domain: &Domain, resident: u64) {
        let offer = Offer { domain: DomainRef::of(domain), resident: Blocks::new(resident) };
        self.tell_all(message::announcement(self.origin, false, &[offer])).await;
    }

    /// The next message to everybody for which a function gives something.
    pub(crate) async fn next_broadcast<T>(&mut self, find: impl FnMut(&Bytes) -> Option<T>) -> T {
        next(&mut self.broadcast, find).await
    }

    /// The same of what is told to it alone.
    pub(crate) async fn next_own<T>(&mut self, find: impl FnMut(&Bytes) -> Option<T>) -> T {
        next(&mut self.inbox, find).await
    }
}

pub(crate) fn inbox_of(origin: Origin) -> String {
    format!("{SUBJECT}.snapshot.{origin}")
}

async fn next<T>(messages: &mut Subscriber, mut find: impl FnMut(&Bytes) -> Option<T>) -> T {
    let search = async {
        loop {
            let message = messages.next().await.unwrap();
            if let Some(found) = find(&message.payload) {
                return found;
            }
        }
    };
    timeout(BETWEEN_LOOKS * LOOKS as u32, search).await.unwrap()
}
