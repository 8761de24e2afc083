//! Keys that the interface names and this version does not have yet.
//!
//! They are refused by name rather than as typing errors: who reads the documentation of a later version must
//! learn that the key is right and the program is not new enough.

const LATER: &[&str] = &["server.admin_token_file", "server.tls", "pool.discovery"];

/// True for such a key and for everything below it.
pub(crate) fn is_later(key: &str) -> bool {
    LATER
        .iter()
        .any(|later| key.strip_prefix(later).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// True for the environment variable of such a key.
pub(crate) fn is_later_env(variable: &str) -> bool {
    LATER.iter().any(|later| {
        let name = format!("KVROUTE_{}", later.replace('.', "_").to_uppercase());
        variable.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    })
}
