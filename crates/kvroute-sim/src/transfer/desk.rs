//! What one engine has to hand over.

use std::collections::HashMap;
use std::sync::Arc;

use kvroute_core::TokenId;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::digest;
use crate::runner::KeptRoom;

/// The table on which KV lies until somebody takes it.
#[derive(Debug, Default)]
pub(crate) struct TransferDesk {
    parcels: Mutex<HashMap<String, Parcel>>,
    changed: Notify,
}

/// Something of which the other engine may ask.
#[derive(Debug)]
enum Parcel {
    /// It is being computed.
    Promised,
    /// It is there, in that room.
    Ready { kv: Kv, room: KeptRoom },
    /// It will not come.
    Failed,
}

/// What is told of a prompt's KV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kv {
    /// Tokens of the prompt.
    pub(crate) tokens: u64,
    /// What they hash to.
    pub(super) digest: u64,
    /// Those of them that had been in the cache of the engine that computed the others.
    pub(crate) reused: u64,
}

/// What the desk says about a key.
#[derive(Debug)]
pub(super) enum Taken {
    /// The KV, and the room that it is in.
    Ready { kv: Kv, room: KeptRoom },
    /// Not yet, or nobody has heard of it.
    Pending,
    /// It will not come.
    Failed,
    /// Nobody has heard of it.
    Unknown,
}

/// A promise to hand over a prompt's KV. Dropped without being kept, it is broken.
#[derive(Debug)]
pub(crate) struct Offer {
    desk: Arc<TransferDesk>,
    key: String,
    is_kept: bool,
}

// === impl TransferDesk ===

impl TransferDesk {
    /// Promises the KV of a prompt under a name.
    pub(crate) fn promise(self: &Arc<Self>, key: String) -> Offer {
        self.parcels.lock().insert(key.clone(), Parcel::Promised);
        Offer { desk: Arc::clone(self), key, is_kept: false }
    }

    /// Gives out what is ready, once.
    pub(super) fn take(&self, key: &str) -> Taken {
        let mut parcels = self.parcels.lock();
        match parcels.remove(key) {
            None => Taken::Unknown,
            Some(Parcel::Promised) => {
                parcels.insert(key.to_owned(), Parcel::Promised);
                Taken::Pending
            }
            Some(Parcel::Ready { kv, room }) => Taken::Ready { kv, room },
            Some(Parcel::Failed) => Taken::Failed,
        }
    }

    /// Gives up what nobody took; true if it was there.
    pub(crate) fn expire(&self, key: &str) -> bool {
        let parcel = self.parcels.lock().remove(key);
        match parcel {
            Some(Parcel::Ready { room, .. }) => {
                room.expire();
                true
            }
            _ => false,
        }
    }

    /// Resolves when something may have changed since this was called.
    pub(super) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    fn put(&self, key: &str, parcel: Parcel) {
        self.parcels.lock().insert(key.to_owned(), parcel);
        self.changed.notify_waiters();
    }
}

// === impl Offer ===

impl Offer {
    /// Keeps the promise: the KV of this prompt, of which so many tokens were reused, is in that room.
    pub(crate) fn keep(mut self, prompt: &[TokenId], reused: u64, room: KeptRoom) {
        self.is_kept = true;
        let kv = Kv { tokens: prompt.len() as u64, digest: digest(prompt), reused };
        self.desk.put(&self.key, Parcel::Ready { kv, room });
    }

    /// Name of what is handed over.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if !self.is_kept {
            self.desk.put(&self.key, Parcel::Failed);
        }
    }
}
