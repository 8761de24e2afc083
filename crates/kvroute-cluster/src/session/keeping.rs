//! What is due from time to time: to say that this replica is there, and to ask for what others know.

use kvroute_core::Blocks;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::Session;
use crate::joins::Request;
use crate::link::LinkError;
use crate::message::{self, DomainRef, OFFERS_PER_MESSAGE, Offer};

// === impl Session ===

impl Session<'_> {
    pub(super) async fn keep_up(&self, mut refusals: mpsc::Receiver<String>) -> LinkError {
        let mut announced = None;
        loop {
            if let Err(error) = self.do_what_is_due(&mut announced).await {
                return error;
            }
            tokio::select! {
                () = sleep(self.shared.timing.beat) => {}
                () = self.shared.wake.notified() => {}
                Some(refusal) = refusals.recv() => self.take_refusal(&refusal),
            }
        }
    }

    async fn do_what_is_due(&self, announced: &mut Option<Instant>) -> Result<(), LinkError> {
        let now = Instant::now();
        let wants_answer = self.begin_joins(now) || announced.is_none();
        let is_due = announced.is_none_or(|last| now.duration_since(last) >= self.shared.timing.announce);
        let is_owed = std::mem::take(&mut self.desk.lock().owes_announcement);
        if wants_answer || is_due || is_owed {
            *announced = Some(now);
            self.announce(wants_answer).await?;
        }
        for request in self.due_requests(now) {
            self.request(&request).await?;
        }
        Ok(())
    }

    /// True if somebody is to be asked for offers.
    fn begin_joins(&self, now: Instant) -> bool {
        let newcomers = self.shared.domains.take_newcomers();
        let has_newcomers = !newcomers.is_empty();
        let joins = &mut self.desk.lock().joins;
        for domain in newcomers {
            joins.begin(domain, now);
        }
        has_newcomers
    }

    async fn announce(&self, wants_answer: bool) -> Result<(), LinkError> {
        let histories = self.shared.domains.offers();
        let residents: Vec<Blocks> = histories.iter().map(|(_, history)| history.resident()).collect();
        let domains = histories.iter().map(|(domain, _)| DomainRef::of(domain));
        let offers: Vec<Offer<'_>> =
            domains.zip(residents).map(|(domain, resident)| Offer { domain, resident }).collect();
        let (first, rest) = offers.split_at(offers.len().min(OFFERS_PER_MESSAGE));
        self.tell_all(message::announcement(self.shared.origin, wants_answer, first)).await?;
        for more in rest.chunks(OFFERS_PER_MESSAGE) {
            self.tell_all(message::announcement(self.shared.origin, false, more)).await?;
        }
        Ok(())
    }

    fn due_requests(&self, now: Instant) -> Vec<Request> {
        let peers = self.shared.peers.lock();
        self.desk.lock().joins.due(&peers, &self.shared.timing, now, rand::random)
    }

    async fn request(&self, request: &Request) -> Result<(), LinkError> {
        let Request { of, transfer, domain } = request;
        tracing::debug!(peer = %of, %domain, "asking another replica for what it knows");
        self.tell(*of, message::request(self.shared.origin, *transfer, DomainRef::of(domain))).await
    }

    fn take_refusal(&self, refusal: &str) {
        if self.shared.refused() {
            tracing::warn!(
                refusal,
                "nats server refuses what sharing histories needs; allow publishing and subscribing to cache-history-v1 and cache-history-v1.snapshot.*"
            );
        }
    }
}
