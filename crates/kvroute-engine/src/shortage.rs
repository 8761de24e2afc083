//! Errors of this process's own: it ran out of something, which says nothing about a worker.

use std::error::Error;
use std::io;

/// ENOMEM, ENFILE, EMFILE, EADDRNOTAVAIL and ENOBUFS.
const SHORTAGES: [i32; 5] = [12, 23, 24, 99, 105];

/// Whether something that this process ran out of is behind an error.
pub fn is_shortage(error: &(dyn Error + 'static)) -> bool {
    io_error_in(error).and_then(io::Error::raw_os_error).is_some_and(|code| SHORTAGES.contains(&code))
}

/// What the operating system said, where it stands behind an error.
pub fn io_error_in<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}
