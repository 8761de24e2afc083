//! One file a command, but for the demo, which is a folder of its own.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod engine;
pub(crate) mod explain;
pub(crate) mod metrics;
pub(crate) mod serve;
