//! A certificate and its private key: what one end of a connection shows the other.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, InconsistentKeys, RootCertStore};

use super::{TlsError, certificates, provider, read};

/// A certificate that is valid now, with what it was issued by, and the key that belongs to it.
#[derive(PartialEq, Eq)]
pub struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

// === impl Identity ===

impl Identity {
    /// Reads both files. The chain begins with the certificate itself; one file may hold everything.
    ///
    /// # Errors
    /// A file cannot be used, the certificate is not valid now, or the two are no pair.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let identity = Self { chain: certificates(certificate)?, key: private_key(key)? };
        check_time(certificate, &identity.chain[0])?;
        identity.check_pair(certificate, key)?;
        Ok(identity)
    }

    /// The form in which a server presents it.
    ///
    /// # Errors
    /// The library cannot sign with such a key.
    pub fn certified(self) -> Result<Arc<CertifiedKey>, TlsError> {
        let certified = CertifiedKey::from_der(self.chain, self.key, &provider());
        certified.map(Arc::new).map_err(|error| TlsError::Unsupported(error.to_string()))
    }

    fn check_pair(&self, certificate: &Path, key: &Path) -> Result<(), TlsError> {
        let provider: &CryptoProvider = &provider();
        let signing = provider.key_provider.load_private_key(self.key.clone_key());
        let signing = signing.map_err(|error| TlsError::unusable(key, &error))?;
        match CertifiedKey::new(self.chain.clone(), signing).keys_match() {
            Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                Err(TlsError::NoPair { certificate: certificate.to_owned(), key: key.to_owned() })
            }
            Err(Error::InconsistentKeys(_)) | Ok(()) => Ok(()),
            Err(error) => Err(TlsError::unusable(certificate, &error)),
        }
    }
}

/// A key is nothing for a log.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    match PrivateKeyDer::from_pem_slice(&read(file)?) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => Err(TlsError::NoKey(file.to_owned())),
        Err(error) => Err(TlsError::unusable(file, &error)),
    }
}

/// The library looks at a certificate's time before it looks for its issuer, and nobody is named who could have issued it:
/// whatever else it finds is for the other end to judge.
fn check_time(file: &Path, certificate: &CertificateDer<'_>) -> Result<(), TlsError> {
    let parsed =
        ParsedCertificate::try_from(certificate).map_err(|error| TlsError::unusable(file, &error))?;
    let algorithms = provider().signature_verification_algorithms.all;
    let nobody = RootCertStore::empty();
    let judged =
        verify_server_cert_signed_by_trust_anchor(&parsed, &nobody, &[], UnixTime::now(), algorithms);
    let problem = match judged {
        Err(Error::InvalidCertificate(
            error @ (CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }),
        )) => error.to_string(),
        _ => return Ok(()),
    };
    Err(TlsError::NotValidNow { file: file.to_owned(), problem: told(&problem) })
}

/// The library's words in the middle of a sentence.
fn told(problem: &str) -> String {
    let problem = problem.strip_prefix("certificate ").unwrap_or(problem);
    format!("is not valid now ({problem})")
}
