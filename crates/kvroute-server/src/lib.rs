//! The router's two HTTP planes: data for clients of the models, admin for operators.
//!
//! Both sockets are bound before anything else starts, so that a port in use is an error of the command and not
//! of the first request.

#![forbid(unsafe_code)]

mod admin_plane;
mod admin_tokens;
mod body;
mod data_plane;
mod descriptors;
mod differences;
#[doc(hidden)]
pub mod fuzz;
mod json;
mod keys;
mod limits;
mod listener;
mod live;
mod named_file;
mod not_served;
mod openapi;
mod placed;
mod rate;
mod reload;
mod server;
mod threads;
mod tls;
mod trust;

pub use admin_tokens::{AdminTokens, InvalidTokens};
pub use keys::{ApiKeys, InvalidKeys};
pub use limits::Limits;
pub use listener::ListenError;
pub use named_file::{Fingerprint, NamedFile};
pub use rate::Rate;
pub use reload::{PreparedReload, Reload, ServerChanges};
pub use server::{Security, ServeConfig, Server, StartError};
pub use tls::ServerTls;
