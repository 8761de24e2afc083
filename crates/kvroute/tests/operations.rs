//! What an operator does to a running router and its workers, under load: nobody who asks may notice.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "operations/admin.rs"]
mod admin;
#[path = "operations/caller.rs"]
mod caller;
#[path = "operations/found_by_dns.rs"]
mod found_by_dns;
#[path = "operations/found_in_a_file.rs"]
mod found_in_a_file;
#[path = "operations/load.rs"]
mod load;
#[path = "operations/name_server.rs"]
mod name_server;
#[path = "operations/readiness.rs"]
mod readiness;
#[path = "operations/reloaded.rs"]
mod reloaded;
#[path = "operations/rolling.rs"]
mod rolling;
