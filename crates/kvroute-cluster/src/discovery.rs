//! Where workers are found that nobody configured: in a file that something else writes, or in the domain name system.
//!
//! Both only say what stands there. Whether that is believed is decided above: what cannot be read, or names nobody by an
//! accident, must not cost a fleet its workers.

pub mod dns;
pub mod watched_file;
