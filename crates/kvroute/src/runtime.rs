//! The async runtime of the commands that serve.

use std::future::Future;

use crate::failure::Failure;

/// Runs a command to its end on all processors.
pub(crate) fn block_on(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::while_doing("cannot start the async runtime", error))?;
    runtime.block_on(command)
}
