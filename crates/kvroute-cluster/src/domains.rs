//! The histories that are shared, by what their hashes mean.

use std::sync::Arc;

use kvroute_core::SequenceHash;
use kvroute_history::{Domain, History};
use parking_lot::RwLock;

use crate::message::DomainRef;

/// All of them. Two pools may share one domain.
#[derive(Debug, Default)]
pub(crate) struct Domains {
    book: RwLock<Book>,
}

#[derive(Debug, Default)]
struct Book {
    members: Vec<Member>,
    next: u64,
}

#[derive(Debug)]
struct Member {
    id: u64,
    domain: Arc<Domain>,
    history: Arc<History>,
    /// Whether the fleet's hashes were asked for.
    has_joined: bool,
}

// === impl Domains ===

impl Domains {
    /// Takes a history in, under a number of its own.
    pub(crate) fn add(&self, domain: Arc<Domain>, history: Arc<History>) -> u64 {
        let mut book = self.book.write();
        let id = book.next;
        book.next += 1;
        book.members.push(Member { id, domain, history, has_joined: false });
        id
    }

    pub(crate) fn remove(&self, id: u64) {
        self.book.write().members.retain(|member| member.id != id);
    }

    /// Teaches every history of the domain. False if there is none.
    pub(crate) fn teach(&self, domain: DomainRef<'_>, hashes: &[SequenceHash]) -> bool {
        let (book, mut is_shared) = (self.book.read(), false);
        for member in book.members.iter().filter(|member| member.is_of(domain)) {
            member.history.teach(hashes);
            is_shared = true;
        }
        is_shared
    }

    /// Whether a history of the domain is shared.
    pub(crate) fn holds(&self, domain: &Domain) -> bool {
        self.book.read().members.iter().any(|member| *member.domain == *domain)
    }

    /// The fullest history of each domain.
    pub(crate) fn offers(&self) -> Vec<(Arc<Domain>, Arc<History>)> {
        let mut offers: Vec<(Arc<Domain>, Arc<History>)> = Vec::new();
        for Member { domain, history, .. } in &self.book.read().members {
            match offers.iter_mut().find(|(other, _)| other == domain) {
                Some((_, fullest)) if fullest.resident() >= history.resident() => {}
                Some((_, fullest)) => *fullest = Arc::clone(history),
                None => offers.push((Arc::clone(domain), Arc::clone(history))),
            }
        }
        offers
    }

    /// The fullest history of this domain.
    pub(crate) fn offer(&self, domain: DomainRef<'_>) -> Option<(Arc<Domain>, Arc<History>)> {
        self.offers().into_iter().find(|(offered, _)| DomainRef::of(offered) == domain)
    }

    /// Domains with a history that nobody was asked for yet; from now on all have been.
    pub(crate) fn take_newcomers(&self) -> Vec<Arc<Domain>> {
        let mut newcomers: Vec<Arc<Domain>> = Vec::new();
        for member in self.book.write().members.iter_mut().filter(|member| !member.has_joined) {
            member.has_joined = true;
            if !newcomers.contains(&member.domain) {
                newcomers.push(Arc::clone(&member.domain));
            }
        }
        newcomers
    }

    /// The hashes of these domains must be asked for again.
    pub(crate) fn join_again(&self, is_meant: impl Fn(&Domain) -> bool) {
        let mut book = self.book.write();
        for member in book.members.iter_mut().filter(|member| is_meant(&member.domain)) {
            member.has_joined = false;
        }
    }
}

// === impl Member ===

impl Member {
    fn is_of(&self, domain: DomainRef<'_>) -> bool {
        DomainRef::of(&self.domain) == domain
    }
}
