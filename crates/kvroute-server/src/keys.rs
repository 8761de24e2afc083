//! Who may ask: keys of clients, known by their hashes only.
//!
//! The file holds no key that could be stolen from it. A key that a client sends is hashed and compared with every hash
//! in the file, in a time that says nothing of how far they agree.

use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use kvroute_router::{ErrorKind, RouteError};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

use crate::limits::too_many;
use crate::rate::Meter;

/// The keys of a file; at least one.
#[derive(Clone, Debug)]
pub struct ApiKeys(Arc<[ApiKey]>);

/// One key and what it grants.
#[derive(Clone, Debug)]
pub(crate) struct ApiKey {
    digest: [u8; 32],
    /// How often it may come, and how often it came.
    meter: Option<Arc<Meter>>,
    /// Whose requests those are that bring it.
    pub(crate) tenant: Option<Arc<str>>,
    /// Whether they may steer the selection, and see where they went and why.
    pub(crate) is_trusted: bool,
}

/// A file of keys that cannot be used: the line, what is wrong with it, and what is right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeys {
    /// It grants nobody anything.
    #[error(
        "holds no key; write lines such as sha256:HEX tenant=NAME, or leave the setting out to be open to all"
    )]
    Empty,
    /// A line cannot be understood.
    #[error("line {line}: {problem}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong and what is right.
        problem: String,
    },
}

/// What may stand behind a key.
const GRANTS: &str = "behind a key stand tenant=NAME, rate=COUNT/s or COUNT/m, and trusted, each at most once, and nothing else";

/// Where clients of Anthropic's API have their key.
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

// === impl ApiKeys ===

impl ApiKeys {
    /// Reads a file: a line a key, `sha256:HEX` with what it grants behind it; `#` begins a comment.
    ///
    /// # Errors
    /// Names the line and what is wrong with it. What stands there is not repeated: it may be a key.
    pub fn parse(text: &str) -> Result<Self, InvalidKeys> {
        let mut keys: Vec<ApiKey> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let words = line.split('#').next().unwrap_or_default();
            if words.trim().is_empty() {
                continue;
            }
            let failed = |problem| InvalidKeys::Line { line: number, problem };
            let key = ApiKey::parse(words).map_err(failed)?;
            if keys.iter().any(|known| known.digest == key.digest) {
                return Err(failed("this key stands above already; keep one line of it".to_owned()));
            }
            keys.push(key);
        }
        if keys.is_empty() { Err(InvalidKeys::Empty) } else { Ok(Self(keys.into())) }
    }

    /// What the keys that `before` knew have spent of their rates stays spent, where the rates are the same.
    #[must_use]
    pub(crate) fn succeeding(&self, before: &Self) -> Self {
        let succeed = |key: &ApiKey| {
            let known = before.0.iter().find(|known| known.digest == key.digest);
            known.map_or_else(|| key.clone(), |known| key.succeeding(known))
        };
        Self(self.0.iter().map(succeed).collect())
    }

    /// The key that a request brings. It is taken out of its headers: it is meant for this router, and no worker is to see
    /// it.
    pub(crate) fn admit(&self, headers: &mut HeaderMap) -> Result<&ApiKey, RouteError> {
        let bearer = headers.remove(AUTHORIZATION);
        let plain = headers.remove(X_API_KEY);
        let bearer = bearer.as_ref().and_then(|value| strip_scheme(value.as_bytes()));
        let key = bearer.or_else(|| plain.as_ref().map(|value| value.as_bytes()));
        let Some(key) = key else {
            return Err(RouteError::client(ErrorKind::Unauthorized("the request brings no API key")));
        };
        self.find(key)
            .ok_or_else(|| RouteError::client(ErrorKind::Unauthorized("the API key is not known here")))
    }

    fn find(&self, key: &[u8]) -> Option<&ApiKey> {
        let digest: [u8; 32] = Sha256::digest(key).into();
        let mut found = None;
        for known in self.0.iter() {
            if bool::from(known.digest.ct_eq(&digest)) {
                found = Some(known);
            }
        }
        found
    }
}

/// What stands behind `Bearer` in the header.
pub(crate) fn strip_scheme(value: &[u8]) -> Option<&[u8]> {
    let (scheme, key) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| key.trim_ascii())
}

// === impl ApiKey ===

impl ApiKey {
    fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let digest = words.next().and_then(|word| word.strip_prefix("sha256:")).and_then(digest_of);
        let Some(digest) = digest else {
            return Err(
                "a line begins with sha256: and the 64 hexadecimal digits of the key's SHA-256".to_owned()
            );
        };
        if [&b""[..], b"\n"].iter().any(|nothing| Sha256::digest(nothing)[..] == digest) {
            return Err("this is the SHA-256 of nothing, so whoever made it hashed an empty text".to_owned());
        }
        let mut key = Self { digest, meter: None, tenant: None, is_trusted: false };
        for word in words {
            match word.split_once('=') {
                None if word == "trusted" && !key.is_trusted => key.is_trusted = true,
                Some(("tenant", name)) if !name.is_empty() && key.tenant.is_none() => {
                    key.tenant = Some(name.into());
                }
                Some(("rate", rate)) if key.meter.is_none() => {
                    let rate = rate.parse().map_err(|expected| format!("behind rate= stands {expected}"))?;
                    key.meter = Some(Arc::new(Meter::new(rate)));
                }
                _ => return Err(GRANTS.to_owned()),
            }
        }
        Ok(key)
    }

    /// Takes one request of the key's rate.
    pub(crate) fn spend(&self, now: Instant) -> Result<(), RouteError> {
        self.meter.as_ref().map_or(Ok(()), |meter| meter.admit(now)).map_err(too_many)
    }

    fn succeeding(&self, before: &Self) -> Self {
        let rate = |key: &Self| key.meter.as_ref().map(|meter| meter.rate());
        let meter = if rate(self) == rate(before) { &before.meter } else { &self.meter };
        Self { meter: meter.clone(), ..self.clone() }
    }
}

fn digest_of(hex: &str) -> Option<[u8; 32]> {
    let digits = hex.as_bytes();
    let mut digest = [0; 32];
    if digits.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let nibble = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(nibble(pair[0])? * 16 + nibble(pair[1])?).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::HeaderValue;

    use super::*;

    /// SHA-256 of "alice" and of "bob".
    const ALICE: &str = "sha256:2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90";
    const BOB: &str = "sha256:81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9";

    const NOTHING: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn asked(keys: &ApiKeys, name: &'static str, value: &str) -> Result<(Option<String>, bool), u16> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        let found = keys.admit(&mut headers);
        assert!(headers.is_empty(), "the key goes no further");
        found
            .map(|key| (key.tenant.as_deref().map(str::to_owned), key.is_trusted))
            .map_err(|error| error.status().as_u16())
    }

    #[test]
    fn a_key_is_known_by_its_hash_and_grants_what_its_line_says() {
        let keys =
            ApiKeys::parse(&format!("# ours\n{ALICE} tenant=red trusted\n\n{BOB} # nobody's\n")).unwrap();
        assert_eq!(asked(&keys, "authorization", "Bearer alice"), Ok((Some("red".to_owned()), true)));
        assert_eq!(asked(&keys, "authorization", "bearer  bob"), Ok((None, false)));
        assert_eq!(asked(&keys, "x-api-key", "bob"), Ok((None, false)));
        for (name, value) in [
            ("authorization", "Bearer eve"),
            ("authorization", "Basic alice"),
            ("authorization", "alice"),
            ("authorization", "Bearer"),
            ("x-api-key", ""),
            ("x-other", "alice"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            assert_eq!(keys.admit(&mut headers).unwrap_err().status().as_u16(), 401, "{name}: {value}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_understood_is_named_by_its_number_and_not_repeated() {
        let problem = |text: &str| ApiKeys::parse(text).unwrap_err().to_string();
        assert!(problem("\n# nothing\n").contains("holds no key"));
        for (text, said) in [
            ("secret-key", "line 1: a line begins with sha256:"),
            ("\nsha256:12", "line 2: a line begins with sha256:"),
            (&format!("{ALICE}\n{ALICE}"), "line 2: this key stands above already"),
            (&format!("{ALICE} rate=5"), "line 1: behind rate= stands a rate such as"),
            (&format!("{ALICE} rate=5/s rate=5/s"), "line 1: behind a key stand"),
            (&format!("{ALICE} tenant="), "line 1: behind a key stand"),
            (&format!("{ALICE} admin"), "line 1: behind a key stand"),
            (&format!("{ALICE} tenant=a tenant=b"), "line 1: behind a key stand"),
            (&format!("{ALICE} trusted trusted"), "line 1: behind a key stand"),
            (NOTHING, "line 1: this is the SHA-256 of nothing"),
        ] {
            assert!(problem(text).starts_with(said), "{text}: {}", problem(text));
        }
        assert!(!problem("secret-key").contains("secret"));
    }

    fn spent(keys: &ApiKeys, name: &str, times: usize) -> usize {
        let key = keys.find(name.as_bytes()).unwrap();
        let now = Instant::now();
        (0..times).filter(|_| key.spend(now).is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_has_a_rate_of_its_own_and_says_when_to_come_again() {
        let keys = ApiKeys::parse(&format!("{ALICE} rate=2/m,burst=3 tenant=red\n{BOB}")).unwrap();
        assert_eq!(spent(&keys, "alice", 10), 3);
        assert_eq!(spent(&keys, "bob", 10), 10);
        let error = keys.find(b"alice").unwrap().spend(Instant::now()).unwrap_err();
        assert_eq!((error.status().as_u16(), error.retry_after()), (429, Some(Duration::from_secs(30))));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_are_read_anew_keep_what_they_spent_unless_their_rate_is_another_one() {
        let before = ApiKeys::parse(&format!("{ALICE} rate=3/m\n{BOB} rate=3/m")).unwrap();
        assert_eq!((spent(&before, "alice", 2), spent(&before, "bob", 3)), (2, 3));
        let after = ApiKeys::parse(&format!("{BOB} rate=4/m\n{ALICE} rate=3/m trusted")).unwrap();
        let after = after.succeeding(&before);
        assert_eq!((spent(&after, "alice", 5), spent(&after, "bob", 5)), (1, 4));
        assert!(after.find(b"alice").unwrap().is_trusted, "what else it grants is new");
    }
}
