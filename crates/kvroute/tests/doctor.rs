//! `kvroute doctor` in front of engines that lack one thing each: it must name that thing, and nothing else.

#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test fails by panicking")]

#[path = "doctor/command.rs"]
mod command;
#[path = "doctor/configured.rs"]
mod configured;
#[path = "doctor/flavours.rs"]
mod flavours;
#[path = "doctor/folders.rs"]
mod folders;
#[path = "doctor/identity.rs"]
mod identity;
#[path = "doctor/llama_cpp.rs"]
mod llama_cpp;
#[path = "doctor/stub.rs"]
mod stub;
#[path = "doctor/told.rs"]
mod told;
#[path = "doctor/tried.rs"]
mod tried;
#[path = "doctor/usage.rs"]
mod usage;
