//! The 64 bytes that each side sends first: signature, version, security mechanism.

use crate::ZmtpError;

pub(crate) const GREETING_BYTES: usize = 64;

const VERSION: [u8; 2] = [3, 0];
const MECHANISM: &[u8; 4] = b"NULL";

/// Ours: version 3.0, which makes newer peers send subscriptions as plain messages.
pub(crate) fn greeting() -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[0] = 0xff;
    bytes[9] = 0x7f;
    bytes[10..12].copy_from_slice(&VERSION);
    bytes[12..16].copy_from_slice(MECHANISM);
    bytes
}

/// Refuses what is not ZMTP, what is older than 3.0, and what wants encryption or a password.
pub(crate) fn check_greeting(bytes: &[u8; GREETING_BYTES]) -> Result<(), ZmtpError> {
    if bytes[0] != 0xff || bytes[9] & 1 != 1 {
        return Err(ZmtpError::Handshake("it does not greet as one; is this the event port?"));
    }
    if bytes[10] < VERSION[0] {
        return Err(ZmtpError::Handshake("its protocol is older than ZMTP 3.0"));
    }
    let mechanism = &bytes[12..32];
    if &mechanism[..4] != MECHANISM || mechanism[4..].iter().any(|byte| *byte != 0) {
        return Err(ZmtpError::Handshake("it asks for a security mechanism; only NULL is supported"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_itself_and_newer_minors() {
        let mut bytes = greeting();
        assert!(check_greeting(&bytes).is_ok());
        bytes[11] = 1;
        assert!(check_greeting(&bytes).is_ok());
    }

    #[test]
    fn refuses_http_old_versions_and_other_mechanisms() {
        let mut http = [b' '; GREETING_BYTES];
        http[..15].copy_from_slice(b"HTTP/1.1 400 Ba");
        assert!(check_greeting(&http).is_err());

        let mut old = greeting();
        old[10] = 2;
        assert!(check_greeting(&old).is_err());

        let mut curve = greeting();
        curve[12..17].copy_from_slice(b"CURVE");
        assert!(check_greeting(&curve).is_err());
        let mut longer_name = greeting();
        longer_name[16] = b'X';
        assert!(check_greeting(&longer_name).is_err());
    }
}
