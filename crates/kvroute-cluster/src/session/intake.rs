//! What other replicas say, one message after the other. Nothing here waits.

use kvroute_core::MessageResult;
use tokio::time::Instant;

use super::Session;
use crate::joins::Part;
use crate::message::{Body, DecodeError, DomainRef, Hashes, Message, Offer, Origin, PartEnd, decode};

// === impl Session ===

impl Session<'_> {
    /// A message that all replicas got.
    pub(super) fn take_broadcast(&self, bytes: &[u8]) {
        let result = self.foreign(bytes).and_then(|Message { origin, body }| match body {
            Body::Update { sequence, domain, hashes } => {
                Ok(self.take_update(origin, sequence, domain, hashes))
            }
            Body::Announcement { wants_answer, offers } => {
                Ok(self.take_announcement(origin, wants_answer, &offers))
            }
            Body::Goodbye => Ok(self.take_goodbye(origin)),
            Body::Request { .. } | Body::Part { .. } => Err(MessageResult::Malformed),
        });
        self.shared.received(result.unwrap_or_else(|refusal| refusal));
    }

    /// A message that only this replica got.
    pub(super) fn take_own(&self, bytes: &[u8]) {
        let result = self.foreign(bytes).and_then(|Message { origin, body }| match body {
            Body::Request { transfer, domain } => Ok(self.take_request(origin, transfer, domain)),
            Body::Part { transfer, index, end, domain, hashes } => {
                Ok(self.take_part(origin, (transfer, index), end, domain, hashes))
            }
            Body::Update { .. } | Body::Announcement { .. } | Body::Goodbye => Err(MessageResult::Malformed),
        });
        self.shared.received(result.unwrap_or_else(|refusal| refusal));
    }

    /// A message of another replica, or what it is otherwise.
    fn foreign<'m>(&self, bytes: &'m [u8]) -> Result<Message<'m>, MessageResult> {
        match decode(bytes) {
            Ok(message) if message.origin == self.shared.origin => Err(MessageResult::Own),
            Ok(message) => Ok(message),
            Err(DecodeError::Version(_)) => Err(MessageResult::OtherVersion),
            Err(DecodeError::Malformed(_)) => Err(MessageResult::Malformed),
        }
    }

    fn take_update(
        &self,
        origin: Origin,
        sequence: u64,
        domain: DomainRef<'_>,
        hashes: Hashes<'_>,
    ) -> MessageResult {
        let lost = self.shared.peers.lock().updated(origin, sequence, Instant::now());
        self.shared.lost(origin, lost);
        self.learn(domain, hashes)
    }

    fn learn(&self, domain: DomainRef<'_>, hashes: Hashes<'_>) -> MessageResult {
        if self.shared.domains.teach(domain, &hashes.to_vec()) {
            MessageResult::Ok
        } else {
            MessageResult::OtherDomain
        }
    }

    fn take_announcement(&self, origin: Origin, wants_answer: bool, offers: &[Offer<'_>]) -> MessageResult {
        self.shared.peers.lock().announced(origin, offers, Instant::now());
        self.shared.show_peers();
        if wants_answer {
            self.desk.lock().owes_announcement = true;
            self.shared.wake.notify_one();
        }
        MessageResult::Ok
    }

    fn take_goodbye(&self, origin: Origin) -> MessageResult {
        self.shared.peers.lock().left(origin);
        self.shared.show_peers();
        MessageResult::Ok
    }

    fn take_request(&self, origin: Origin, transfer: u64, domain: DomainRef<'_>) -> MessageResult {
        let (result, (domain, history)) = match self.shared.domains.offer(domain) {
            Some((domain, history)) => (MessageResult::Ok, (domain, Some(history))),
            None => (MessageResult::OtherDomain, (domain.to_domain().into(), None)),
        };
        self.desk.lock().transfers.request((origin, transfer), domain, history);
        self.asked.notify_one();
        result
    }

    fn take_part(
        &self,
        origin: Origin,
        place: (u64, u32),
        end: PartEnd,
        domain: DomainRef<'_>,
        hashes: Hashes<'_>,
    ) -> MessageResult {
        let part = self.desk.lock().joins.part(origin, place, end, Instant::now());
        let Part::Expected { missing } = part else { return MessageResult::Stale };
        self.shared.lost(origin, missing.into());
        self.learn(domain, hashes)
    }
}
