//! What it takes to be let in by an admin plane.

use std::path::Path;

use http::HeaderValue;
use kvroute_engine::UpstreamTls;

use crate::failure::Failure;

/// What a router is shown, and what it is verified by.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) authorization: Option<HeaderValue>,
    pub(super) tls: UpstreamTls,
}

// === impl Access ===

impl Access {
    /// Reads the files that were named.
    pub(super) fn read(token: Option<&Path>, ca: Option<&Path>) -> Result<Self, Failure> {
        let tls = match ca {
            None => UpstreamTls::default(),
            Some(_) => {
                UpstreamTls::load(ca, None).map_err(|error| Failure::Usage(format!("--admin-ca: {error}")))?
            }
        };
        Ok(Self { authorization: token.map(bearer).transpose()?, tls })
    }
}

/// The first token of a file, which may hold several while one replaces the other.
fn bearer(file: &Path) -> Result<HeaderValue, Failure> {
    let failed =
        |problem: String| Failure::Usage(format!("--admin-token-file {}: {problem}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| failed(format!("cannot be read: {error}")))?;
    let mut words = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let token = words.next().ok_or_else(|| failed("holds no token".to_owned()))?;
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| failed("its token cannot stand in a header".to_owned()))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_token_of_the_file_is_shown_and_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "# new\n\n a-first-token \nan-old-token\n").unwrap();
        let access = Access::read(Some(&file), None).unwrap();
        assert_eq!(access.authorization.as_ref().unwrap(), "Bearer a-first-token");
        assert!(!format!("{access:?}").contains("a-first-token"));
        std::fs::write(&file, "# nothing\n").unwrap();
        let error = Access::read(Some(&file), None).unwrap_err().to_string();
        assert!(error.contains("--admin-token-file") && error.contains("holds no token"), "{error}");
        let error = Access::read(None, Some(&file)).unwrap_err().to_string();
        assert!(error.contains("--admin-ca") && error.contains("holds no certificate"), "{error}");
    }
}
