//! One connection after the other, with longer and longer pauses while there is none.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::link::Link;
use crate::outbox::Parcels;
use crate::server::Server;
use crate::session::{Ended, Session};
use crate::shared::Shared;

/// Connects and works until told to stop.
pub(crate) struct Connecting<'a> {
    shared: &'a Shared,
    servers: &'a [Server],
    stop: &'a CancellationToken,
    /// The number of the next update.
    sequence: AtomicU64,
    /// Pauses in a row.
    pauses: u32,
    /// When the last connection ended; `None` before the first.
    left: Option<Instant>,
}

// === impl Connecting ===

impl<'a> Connecting<'a> {
    pub(crate) const fn new(shared: &'a Shared, servers: &'a [Server], stop: &'a CancellationToken) -> Self {
        Self { shared, servers, stop, sequence: AtomicU64::new(0), pauses: 0, left: None }
    }

    /// Runs until told to stop. Servers are tried in the order in which they were named.
    pub(crate) async fn run(mut self, mut parcels: Parcels) {
        for server in self.servers.iter().cycle() {
            let opened = self.stop.run_until_cancelled(Link::open(server, self.shared.origin)).await;
            let problem = match opened {
                None => return,
                Some(Err(error)) => error,
                Some(Ok(link)) => match self.work(link, server, &mut parcels).await {
                    Ended::Stopped => return,
                    Ended::Broken(error) => error,
                },
            };
            let pause = self.next_pause();
            tracing::warn!(%server, %problem, ?pause, "no connection to nats, histories are not shared; trying again");
            if self.stop.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    async fn work(&mut self, link: Link, server: &Server, parcels: &mut Parcels) -> Ended {
        tracing::info!(%server, "sharing histories with other replicas");
        let start = Instant::now();
        self.rejoin_after_a_while(start);
        self.shared.connected(true);
        let ended = Session::new(self.shared, &self.sequence, &link).run(link, parcels, self.stop).await;
        self.shared.connected(false);
        while parcels.try_recv().is_ok() {}
        self.left = Some(Instant::now());
        if start.elapsed() >= self.shared.timing.longest_pause {
            self.pauses = 0;
        }
        ended
    }

    /// What others learned while this replica was away for long must be asked for.
    fn rejoin_after_a_while(&self, now: Instant) {
        if self.left.is_some_and(|left| now.duration_since(left) >= self.shared.timing.away) {
            self.shared.domains.join_again(|_| true);
        }
    }

    /// Twice as long as the last one, somewhat different for each replica.
    fn next_pause(&mut self) -> Duration {
        let timing = &self.shared.timing;
        let pause = timing.first_pause.saturating_mul(1 << self.pauses.min(16)).min(timing.longest_pause);
        self.pauses += 1;
        pause.mul_f64(rand::random_range(0.8..1.0))
    }
}
