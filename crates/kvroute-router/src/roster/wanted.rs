//! Who is wanted in a pool, and who says so.

use std::collections::BTreeSet;

use kvroute_core::{WorkerId, closed_label};

use crate::config::WorkerConfig;

closed_label! {
    /// Who named a worker.
    WorkerSource {
        /// The configuration.
        Configured = "configured",
        /// Somebody who asked for it while the router ran.
        Added = "added",
        /// The pool's discovery.
        Discovered = "discovered",
    }
}

/// Those that each source names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    configured: Vec<WorkerConfig>,
    added: Vec<WorkerConfig>,
    discovered: Vec<WorkerConfig>,
    /// Those that are to stay away although they are configured or discovered.
    dismissed: BTreeSet<WorkerId>,
}

// === impl Wanted ===

impl Wanted {
    /// Only those of the configuration.
    pub(crate) fn configured(configured: Vec<WorkerConfig>) -> Self {
        Self { configured, ..Self::default() }
    }

    /// Everybody who is wanted. Where several sources name one worker, the configuration is heard first, and the discovery
    /// last.
    pub(crate) fn workers(&self) -> impl Iterator<Item = &WorkerConfig> {
        let mut seen = BTreeSet::new();
        let named = self.configured.iter().chain(&self.added).chain(&self.discovered);
        named.filter(move |worker| {
            let id = worker.id();
            !self.dismissed.contains(&id) && seen.insert(id)
        })
    }

    /// Who names a worker; `None` where nobody does any more.
    pub(crate) fn source(&self, id: &WorkerId) -> Option<WorkerSource> {
        let names = |workers: &[WorkerConfig]| workers.iter().any(|worker| worker.id() == *id);
        let of = [
            (WorkerSource::Configured, &self.configured),
            (WorkerSource::Added, &self.added),
            (WorkerSource::Discovered, &self.discovered),
        ];
        of.into_iter().find(|(_, workers)| names(workers)).map(|(source, _)| source)
    }

    /// From now on the configuration names these.
    pub(crate) fn configure(&mut self, workers: Vec<WorkerConfig>) {
        self.configured = workers;
        self.pardon();
    }

    /// From now on the discovery finds these.
    pub(crate) fn discover(&mut self, workers: Vec<WorkerConfig>) {
        self.discovered = workers;
        self.pardon();
    }

    /// Somebody asks for one more.
    pub(crate) fn add(&mut self, worker: WorkerConfig) {
        let id = worker.id();
        self.dismissed.remove(&id);
        self.added.retain(|added| added.id() != id);
        self.added.push(worker);
    }

    /// Somebody wants one to stay away, whoever names it.
    pub(crate) fn dismiss(&mut self, id: &WorkerId) {
        self.added.retain(|worker| worker.id() != *id);
        self.dismissed.insert(id.clone());
        self.pardon();
    }

    /// Whoever is named by nobody any more may be named anew.
    fn pardon(&mut self) {
        let named: BTreeSet<_> =
            self.configured.iter().chain(&self.discovered).map(WorkerConfig::id).collect();
        self.dismissed.retain(|id| named.contains(id));
    }
}

#[cfg(test)]
mod tests;
