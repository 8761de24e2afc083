//! What waits to be sent: bounded in number and in bytes, and never waited for.
//!
//! A request hands over what it taught and goes on. Where there is no room, or no connection, the update is dropped and
//! counted. Whatever happens to a parcel on its way, the messages that did not go out count themselves when it is dropped,
//! so no path can forget them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use kvroute_core::SequenceHash;
use kvroute_history::Domain;
use tokio::sync::mpsc;

use crate::message::HASHES_PER_MESSAGE;
use crate::watcher::SharingWatcher;

/// Updates that may wait.
const MOST_PARCELS: usize = 4096;

/// Bytes that all waiting updates together may hold.
pub(crate) const MOST_BYTES: usize = 4 << 20;

/// The way from requests to the connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    sender: mpsc::Sender<Parcel>,
    account: Arc<Account>,
}

/// The end that the connection reads.
pub(crate) type Parcels = mpsc::Receiver<Parcel>;

/// One update on its way.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) domain: Arc<Domain>,
    hashes: Box<[SequenceHash]>,
    sent: usize,
    account: Arc<Account>,
}

/// What is known of all parcels.
#[derive(Debug)]
struct Account {
    is_open: AtomicBool,
    bytes: AtomicUsize,
    dropped: AtomicU64,
    watcher: Arc<dyn SharingWatcher>,
}

// === impl Outbox ===

impl Outbox {
    pub(crate) fn new(watcher: Arc<dyn SharingWatcher>) -> (Self, Parcels) {
        let (sender, parcels) = mpsc::channel(MOST_PARCELS);
        let (is_open, bytes, dropped) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicU64::new(0));
        let account = Arc::new(Account { is_open, bytes, dropped, watcher });
        (Self { sender, account }, parcels)
    }

    /// Takes an update, or drops and counts it. Never waits.
    pub(crate) fn push(&self, domain: &Arc<Domain>, hashes: &[SequenceHash]) {
        if hashes.is_empty() {
            return;
        }
        if !self.account.is_open.load(Ordering::Relaxed) || !self.account.reserve(size_of_val(hashes)) {
            return self.account.drop_messages(hashes.len());
        }
        let (domain, account) = (Arc::clone(domain), Arc::clone(&self.account));
        let parcel = Parcel { domain, hashes: hashes.into(), sent: 0, account };
        // One that does not fit comes back with the error, and counts itself.
        drop(self.sender.try_send(parcel));
    }

    /// Updates are taken from now on, or dropped at once.
    pub(crate) fn set_open(&self, is_open: bool) {
        self.account.is_open.store(is_open, Ordering::Relaxed);
    }

    /// Messages that were dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.account.dropped.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.account.bytes.load(Ordering::Relaxed)
    }
}

// === impl Parcel ===

impl Parcel {
    /// The hashes of the next message, at most `most`; empty when all are sent.
    pub(crate) fn next(&self, most: usize) -> &[SequenceHash] {
        let rest = &self.hashes[self.sent..];
        &rest[..rest.len().min(most)]
    }

    /// So many more hashes are on their way.
    pub(crate) const fn sent(&mut self, hashes: usize) {
        self.sent += hashes;
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.account.release(size_of_val(&*self.hashes));
        self.account.drop_messages(self.hashes.len() - self.sent);
    }
}

// === impl Account ===

impl Account {
    /// False where it would become too much.
    fn reserve(&self, bytes: usize) -> bool {
        let more = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= MOST_BYTES);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn drop_messages(&self, hashes: usize) {
        let messages = hashes.div_ceil(HASHES_PER_MESSAGE) as u64;
        if messages > 0 {
            self.dropped.fetch_add(messages, Ordering::Relaxed);
            self.watcher.dropped(messages);
        }
    }
}

#[cfg(test)]
mod tests {
    use kvroute_core::{Direction, MessageResult, SharingState};

    use super::*;

    #[derive(Debug)]
    struct Nobody;

    impl SharingWatcher for Nobody {
        fn state(&self, _: SharingState) {}
        fn message(&self, _: Direction, _: MessageResult) {}
        fn dropped(&self, _: u64) {}
        fn peers(&self, _: usize) {}
    }

    fn outbox() -> (Outbox, Parcels, Arc<Domain>) {
        let (outbox, parcels) = Outbox::new(Arc::new(Nobody));
        outbox.set_open(true);
        let text = || "x".to_owned();
        let domain = Domain { model: text(), block_size: 16, hash_scheme: text(), namespace_scheme: text() };
        (outbox, parcels, Arc::new(domain))
    }

    fn hashes(count: usize) -> Vec<SequenceHash> {
        vec![SequenceHash::from_raw(7); count]
    }

    #[test]
    fn without_a_connection_every_message_is_dropped_and_counted() {
        let (outbox, mut parcels, domain) = outbox();
        outbox.set_open(false);
        outbox.push(&domain, &hashes(2 * HASHES_PER_MESSAGE + 1));
        assert_eq!(outbox.dropped(), 3);
        assert!(parcels.try_recv().is_err());
    }

    #[test]
    fn neither_number_nor_bytes_grow_without_bound() {
        let (outbox, mut parcels, domain) = outbox();
        for _ in 0..MOST_PARCELS + 5 {
            outbox.push(&domain, &hashes(1));
        }
        assert_eq!((outbox.dropped(), outbox.bytes()), (5, 8 * MOST_PARCELS));
        while parcels.try_recv().is_ok() {}
        assert_eq!(outbox.bytes(), 0);
        let large = hashes(MOST_BYTES / 8 / 4);
        for _ in 0..5 {
            outbox.push(&domain, &large);
        }
        assert_eq!(outbox.bytes(), MOST_BYTES);
    }

    #[test]
    fn what_was_not_sent_of_a_parcel_counts_as_dropped() {
        let (outbox, mut parcels, domain) = outbox();
        outbox.push(&domain, &hashes(3 * HASHES_PER_MESSAGE));
        let mut parcel = parcels.try_recv().unwrap();
        let first = parcel.next(HASHES_PER_MESSAGE).len();
        parcel.sent(first);
        drop(parcel);
        assert_eq!((outbox.dropped(), outbox.bytes()), (2, 0));
    }

    #[test]
    fn a_parcel_that_was_sent_whole_counts_nothing() {
        let (outbox, mut parcels, domain) = outbox();
        outbox.push(&domain, &hashes(5));
        let mut parcel = parcels.try_recv().unwrap();
        assert_eq!(parcel.next(3).len(), 3);
        parcel.sent(3);
        assert_eq!(parcel.next(3).len(), 2);
        parcel.sent(2);
        assert!(parcel.next(3).is_empty());
        drop(parcel);
        assert_eq!(outbox.dropped(), 0);
    }
}
