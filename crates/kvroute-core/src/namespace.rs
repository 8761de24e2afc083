//! What separates equal tokens that must not share KV: tenant salt, adapter, image identities.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Names how the parts of a [`Namespace`] become the seed of its sequence hashes, for hashes that leave the process.
pub const NAMESPACE_SCHEME: &str = "salt-adapter-key-framed-1";

/// Seed of every sequence hash of a prompt.
///
/// Two prompts share cached blocks only in the same namespace. Parts are length-framed before hashing, so
/// that `("ab", "c")` and `("a", "bc")` differ; an empty part equals an absent one, as engines see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Namespace(u64);

// === impl Namespace ===

impl Namespace {
    /// No salt, no adapter: what most traffic lives in.
    pub const DEFAULT: Self = Self(0);

    /// The namespace of a tenant's salt and an adapter's name.
    pub fn new(salt: Option<&str>, adapter: Option<&str>) -> Self {
        Self::DEFAULT.part(b's', salt).part(b'a', adapter)
    }

    /// The same, apart by a further key of the request (SGLang's `extra_key`).
    #[must_use]
    pub fn keyed(self, key: Option<&str>) -> Self {
        self.part(b'k', key)
    }

    /// The seed itself, for hashing.
    pub(crate) const fn seed(self) -> u64 {
        self.0
    }

    fn part(self, kind: u8, value: Option<&str>) -> Self {
        let Some(value) = value.filter(|value| !value.is_empty()) else { return self };
        let mut framed = Vec::with_capacity(value.len() + 9);
        framed.push(kind);
        framed.extend_from_slice(&(value.len() as u64).to_le_bytes());
        framed.extend_from_slice(value.as_bytes());
        Self(xxh3_64_with_seed(&framed, self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_parts_do_not_collide_and_empty_is_absent() {
        assert_ne!(Namespace::new(Some("ab"), Some("c")), Namespace::new(Some("a"), Some("bc")));
        assert_ne!(Namespace::new(Some("a"), None), Namespace::new(None, Some("a")));
        assert_eq!(Namespace::new(Some(""), None), Namespace::DEFAULT);
        assert_eq!(Namespace::new(None, None), Namespace::DEFAULT);
        let keyed = Namespace::DEFAULT.keyed(Some("a"));
        assert!(keyed != Namespace::new(Some("a"), None) && keyed != Namespace::new(None, Some("a")));
        assert_eq!(Namespace::DEFAULT.keyed(Some("")), Namespace::DEFAULT);
    }
}
