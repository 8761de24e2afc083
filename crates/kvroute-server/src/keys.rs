//! Who may ask: keys of clients, known by their hashes only.
//!
//! The file holds no key that could be stolen from it. A key that a client sends is hashed and compared with every hash
//! in the file, in a time that says nothing of how far they agree.

use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use kvroute_router::{ErrorKind, RouteError};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The keys of a file; at least one.
#[derive(Clone, Debug)]
pub struct ApiKeys(Arc<[ApiKey]>);

/// One key and what it grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiKey {
    digest: [u8; 32],
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

fn strip_scheme(value: &[u8]) -> Option<&[u8]> {
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
        let mut key = Self { digest, tenant: None, is_trusted: false };
        for word in words {
            match word.split_once('=') {
                None if word == "trusted" && !key.is_trusted => key.is_trusted = true,
                Some(("tenant", name)) if !name.is_empty() && key.tenant.is_none() => {
                    key.tenant = Some(name.into());
                }
                Some(("rate", _)) => {
                    return Err("rate is not available in this version; take it out".to_owned());
                }
                _ => {
                    return Err(
                        "behind a key stand tenant=NAME and trusted, each at most once, and nothing else"
                            .to_owned(),
                    );
                }
            }
        }
        Ok(key)
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
            (&format!("{ALICE} rate=5"), "line 1: rate is not available in this version"),
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
}
