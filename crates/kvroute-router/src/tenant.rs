//! What keeps the caches of tenants apart.
//!
//! An engine shares KV between requests of equal salt. A tenant's salt is made of its name and of the salt that the client
//! itself sent, each with its length in front, by a hash that nobody can aim: so no client can choose a salt that is
//! another tenant's. The same salt goes into the engine's body and into every hash here, so F1, F2 and F3 see what
//! the engine sees.

use std::fmt::Write as _;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// The salt of a tenant's request, given the salt that its client sent. An empty one is none.
pub(crate) fn salt(tenant: &str, of_client: Option<&str>) -> Arc<str> {
    let mut hash = Sha256::new();
    for part in [tenant, of_client.unwrap_or_default()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let mut text = "tenant-".to_owned();
    for byte in &hash.finalize()[..16] {
        let _infallible = write!(text, "{byte:02x}");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_choose_the_salt_of_another_tenant() {
        let salts = [
            salt("a", None),
            salt("b", None),
            salt("a", Some("b")),
            salt("ab", None),
            salt("a", Some(&salt("b", None))),
        ];
        let different: std::collections::BTreeSet<_> = salts.iter().collect();
        assert_eq!(different.len(), salts.len(), "{salts:?}");
        assert_eq!(salt("a", Some("")), salt("a", None), "empty is absent");
        assert_eq!(salts[0].len(), "tenant-".len() + 32);
    }
}
