//! The router's two HTTP planes: data for clients of the models, admin for operators.
//!
//! Both sockets are bound before anything else starts, so that a port in use is an error of the command and not
//! of the first request.

#![forbid(unsafe_code)]

mod admin_plane;
mod body;
mod data_plane;
mod json;
mod keys;
mod listener;
mod not_served;
mod server;
mod trust;

pub use keys::{ApiKeys, InvalidKeys};
pub use listener::ListenError;
pub use server::{ServeConfig, Server, StartError};
