//! Looks for workers where a pool's discovery says, and tells the roster whom it finds.
//!
//! A look that fails, or finds nobody where somebody was, changes nothing but what is shown of the discovery: its workers are
//! watched by themselves, so one that is gone is known to be gone without it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kvroute_cluster::discovery::dns::{Dns, Question};
use kvroute_cluster::discovery::watched_file::WatchedFile;
use tokio::time::sleep;

use super::Shared;
use crate::config::{DiscoveryConfig, DiscoveryKind, DnsName, WorkerConfig};
use crate::discovery::{at_places, read_file};
use crate::finder::Finder;
use crate::plan::PoolPlan;

/// How often a file is looked at.
const FILE_EVERY: Duration = Duration::from_secs(1);

/// How soon a name is asked for again, at the earliest: an answer may say that it holds for no time at all.
const DNS_SOONEST: Duration = Duration::from_secs(1);

/// Looks again and again until told to stop.
pub(super) async fn discover(shared: Arc<Shared>, plan: Arc<PoolPlan>, finder: Arc<Finder>) {
    let ending = shared.ending.clone();
    let config = finder.config().clone();
    let seeking = Seeking { shared, plan, finder };
    let _stopped = ending.run_until_cancelled(seeking.run(config)).await;
}

/// One pool's discovery.
struct Seeking {
    shared: Arc<Shared>,
    plan: Arc<PoolPlan>,
    finder: Arc<Finder>,
}

// === impl Seeking ===

impl Seeking {
    async fn run(self, config: DiscoveryConfig) {
        match config.kind {
            DiscoveryKind::File(path) => self.watch(WatchedFile::new(path)).await,
            DiscoveryKind::Dns { name, is_https, server } => {
                let question = match name {
                    DnsName::Service(name) => Question::Service(name),
                    DnsName::Host(name, port) => Question::Host(name, port),
                };
                let dns = self.resolver(question, server, config.refresh).await;
                self.ask(&dns, is_https, config.refresh).await;
            }
        }
    }

    async fn watch(self, mut file: WatchedFile) {
        let mut content = Some(file.read().await);
        loop {
            match content {
                Some(Ok(content)) => self.judge(read_file(&content)),
                Some(Err(error)) => self.finder.failed(&format!("cannot be read: {error}")),
                None => self.finder.still(),
            }
            sleep(FILE_EVERY).await;
            content = file.changed().await;
        }
    }

    /// Where the system names no server yet, it may do so later.
    async fn resolver(&self, question: Question, server: Option<SocketAddr>, refresh: Duration) -> Dns {
        loop {
            match Dns::new(question.clone(), server) {
                Ok(dns) => return dns,
                Err(error) => self.finder.failed(&error.to_string()),
            }
            sleep(refresh.max(DNS_SOONEST)).await;
        }
    }

    async fn ask(self, dns: &Dns, is_https: bool, refresh: Duration) {
        let longest = refresh.max(DNS_SOONEST);
        let mut patience = DNS_SOONEST;
        loop {
            let found = dns.look_up().await.map_err(|error| error.to_string());
            let pause = match found {
                Ok(answer) if !answer.places.is_empty() => {
                    self.judge(at_places(&answer.places, is_https));
                    patience = DNS_SOONEST;
                    answer.holds.clamp(DNS_SOONEST, longest)
                }
                failed => {
                    let nobody = "no worker stands behind this name";
                    self.finder.failed(&failed.map_or_else(|problem| problem, |_nobody| nobody.to_owned()));
                    patience = (patience * 2).min(longest);
                    patience
                }
            };
            sleep(pause).await;
        }
    }

    /// Takes over what was found, if it makes sense.
    fn judge(&self, found: Result<Vec<WorkerConfig>, String>) {
        let unfit = |workers: &[WorkerConfig]| {
            let unfit = workers.iter().find(|worker| !self.plan.may_have(worker.role))?;
            Some(format!(
                "names worker {} with role \"{}\", in a pool that handed no prompts over when the router started; configure \
                 a worker with that role and restart the router",
                unfit.id(),
                unfit.role.as_str()
            ))
        };
        match found.and_then(|workers| unfit(&workers).map_or(Ok(workers), Err)) {
            Err(problem) => self.finder.failed(&problem),
            Ok(workers) => {
                let found = workers.len();
                self.shared.roster.want(&self.plan, |wanted| wanted.discover(workers));
                self.finder.found(found);
                self.shared.settle();
            }
        }
    }
}
