//! What a command prints. Results go to standard output, everything about the way there to standard error.

use std::io::{self, Write};

/// Prints an error, one line a problem. Nothing is left to be done if that fails.
pub(crate) fn error(message: &str) {
    let mut stderr = io::stderr().lock();
    for line in message.lines() {
        let _ = writeln!(stderr, "error: {line}");
    }
}

/// Prints a remark about the way to the result.
pub(crate) fn note(message: &str) {
    let _ = writeln!(io::stderr().lock(), "{message}");
}

/// Prints a result. A closed pipe is no failure: who reads only the head has what it wanted.
pub(crate) fn result(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
