//! What goes on over one connection: sending, receiving, keeping up with the others, giving to those who join.
//!
//! The four go on beside each other and share one task, so that the state between them needs no more than a lock that is
//! never contended, and a transfer that waits for its turn holds up nobody.

mod intake;
mod keeping;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use kvroute_core::{Direction, MessageResult};
use kvroute_history::Domain;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::joins::Joins;
use crate::link::{Link, LinkError, LinkSender, SUBJECT, inbox_of};
use crate::message::{self, DomainRef, Origin};
use crate::outbox::Parcels;
use crate::shared::Shared;
use crate::transfers::{Pace, Transfers};

/// Time for the last words of a replica that stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// One connection's work.
pub(crate) struct Session<'a> {
    shared: &'a Shared,
    sender: LinkSender,
    desk: Mutex<Desk>,
    /// A replica asked for a transfer.
    asked: Notify,
    /// Which update comes next; in the peers' eyes numbers go on from connection to connection.
    sequence: &'a AtomicU64,
}

/// What changes while messages come and go.
#[derive(Debug, Default)]
struct Desk {
    joins: Joins,
    transfers: Transfers,
    /// Somebody wants to know who is there.
    owes_announcement: bool,
}

/// How a session ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The replica stops.
    Stopped,
    /// The connection is of no use any more.
    Broken(LinkError),
}

// === impl Session ===

impl<'a> Session<'a> {
    pub(crate) fn new(shared: &'a Shared, sequence: &'a AtomicU64, link: &Link) -> Self {
        let (sender, desk, asked) = (link.sender(), Mutex::default(), Notify::new());
        Self { shared, sender, desk, asked, sequence }
    }

    /// Works until the connection ends or the replica stops.
    pub(crate) async fn run(&self, link: Link, parcels: &mut Parcels, stop: &CancellationToken) -> Ended {
        let Link { broadcast, inbox, refusals, .. } = link;
        let broken = tokio::select! {
            () = stop.cancelled() => None,
            () = self.sender.ended() => Some(LinkError::Ended),
            () = self.receive_all(broadcast) => Some(LinkError::Ended),
            () = self.receive_own(inbox) => Some(LinkError::Ended),
            error = self.send(parcels) => Some(error),
            error = self.keep_up(refusals) => Some(error),
            error = self.give() => Some(error),
        };
        let Some(error) = broken else {
            let _unheard = timeout(FAREWELL, self.say_goodbye()).await;
            return Ended::Stopped;
        };
        self.join_again();
        Ended::Broken(error)
    }

    /// What was still on its way must be asked for again.
    fn join_again(&self) {
        let desk = self.desk.lock();
        let is_unfinished = |domain: &Domain| desk.joins.unfinished().any(|open| **open == *domain);
        self.shared.domains.join_again(is_unfinished);
    }

    async fn send(&self, parcels: &mut Parcels) -> LinkError {
        while let Some(mut parcel) = parcels.recv().await {
            loop {
                let hashes = parcel.next(self.sender.hashes_per_message());
                if hashes.is_empty() {
                    break;
                }
                let (count, sequence) = (hashes.len(), self.sequence.load(Ordering::Relaxed));
                let message =
                    message::update(self.shared.origin, sequence, DomainRef::of(&parcel.domain), hashes);
                if let Err(error) = self.tell_all(message).await {
                    return error;
                }
                self.sequence.fetch_add(1, Ordering::Relaxed);
                parcel.sent(count);
            }
        }
        LinkError::Ended
    }

    async fn receive_all(&self, mut broadcast: async_nats::Subscriber) {
        while let Some(message) = broadcast.next().await {
            self.take_broadcast(&message.payload);
        }
    }

    async fn receive_own(&self, mut inbox: async_nats::Subscriber) {
        while let Some(message) = inbox.next().await {
            self.take_own(&message.payload);
        }
    }

    /// Gives histories to those who asked, part by part in turns.
    async fn give(&self) -> LinkError {
        let mut pace = Pace::new(self.shared.timing.transfer_rate);
        loop {
            match self.give_part().await {
                Ok(Some(bytes)) => pace.spend(bytes).await,
                Ok(None) => self.asked.notified().await,
                Err(error) => return error,
            }
        }
    }

    /// Sends the next part to the next replica, if there is one. Returns its size.
    async fn give_part(&self) -> Result<Option<usize>, LinkError> {
        let next = self.desk.lock().transfers.take();
        let Some(mut transfer) = next else { return Ok(None) };
        if !self.shared.peers.lock().knows(transfer.to) {
            return Ok(Some(0));
        }
        let (hashes, end) = transfer.next_part(self.sender.hashes_per_message());
        let place = (transfer.number, transfer.index);
        let part = message::part(self.shared.origin, place, end, DomainRef::of(&transfer.domain), &hashes);
        let bytes = part.len();
        self.tell(transfer.to, part).await?;
        if end == message::PartEnd::More {
            transfer.index += 1;
            self.desk.lock().transfers.put_back(transfer);
        }
        Ok(Some(bytes))
    }

    async fn say_goodbye(&self) -> Result<(), LinkError> {
        self.tell_all(message::goodbye(self.shared.origin)).await?;
        self.sender.flush().await
    }

    async fn tell_all(&self, message: bytes::Bytes) -> Result<(), LinkError> {
        self.publish(SUBJECT.to_owned(), message).await
    }

    async fn tell(&self, peer: Origin, message: bytes::Bytes) -> Result<(), LinkError> {
        self.publish(inbox_of(peer), message).await
    }

    async fn publish(&self, subject: String, message: bytes::Bytes) -> Result<(), LinkError> {
        self.sender.publish(subject, message).await?;
        self.shared.watcher.message(Direction::Sent, MessageResult::Ok);
        Ok(())
    }
}
