//! Asks an engine for its events again and again.
//!
//! A question costs the engine one small HTTP request, and its age is what the index lags behind. While events come
//! the pause is 100 ms, a tenth of the time within which a removal excuses a lost prediction, and short against any
//! prefill worth routing for; an idle engine is asked less often. Answers are bounded, and none is asked for before
//! the one before is applied.

use std::time::Duration;

use http::StatusCode;
use kvroute_core::WorkerRank;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::SourceUpdate;
use super::reporter::{Reporter, Unheard};
use crate::HttpClient;
use crate::events::{BlockSizeClaim, PolledSource};
use crate::http::{post, small_client};
use crate::tls::UpstreamTls;

const PATH: &str = "/kv_cache_events";
const BUSY_PAUSE: Duration = Duration::from_millis(100);
const IDLE_PAUSE: Duration = Duration::from_millis(400);
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// Polls until nobody receives the updates.
pub(super) async fn poll(
    url: String,
    rank: WorkerRank,
    block_size: BlockSizeClaim,
    updates: mpsc::Sender<SourceUpdate>,
    tls: &UpstreamTls,
) -> Unheard {
    tracing::warn!(
        %rank, source = format!("{url}{PATH}"),
        "kv events are polled, and the engine gives each of them once: a second router or any other reader steals them"
    );
    let mut poller = Poller {
        client: small_client(tls),
        source: PolledSource::new(rank.dp_rank, Duration::ZERO).expecting(block_size),
        reporter: Reporter::new(rank, updates),
        url,
        started: Instant::now(),
        pause: BUSY_PAUSE,
        last_error: String::new(),
        has_told_ranks: false,
        has_asked: false,
    };
    loop {
        if let Err(unheard) = poller.poll_once().await {
            return unheard;
        }
        tokio::time::sleep(poller.pause).await;
    }
}

struct Poller {
    client: HttpClient,
    url: String,
    source: PolledSource,
    reporter: Reporter,
    started: Instant,
    pause: Duration,
    last_error: String,
    has_told_ranks: bool,
    has_asked: bool,
}

// === impl Poller ===

impl Poller {
    async fn poll_once(&mut self) -> Result<(), Unheard> {
        // Before the first question there is nothing to tell: that nobody has answered yet is no trouble.
        if std::mem::replace(&mut self.has_asked, true) {
            self.reporter.tell_status(self.source.status(self.started.elapsed())).await?;
        }
        let mut actions = Vec::new();
        match self.ask(&mut actions).await {
            Ok(has_events) => {
                self.last_error.clear();
                self.pause = if has_events { BUSY_PAUSE } else { (self.pause * 2).min(IDLE_PAUSE) };
            }
            Err(error) => {
                self.tell_error(error);
                self.pause = FAILED_PAUSE;
                self.source.failed(self.started.elapsed(), &mut actions);
            }
        }
        self.tell_ranks();
        for action in actions {
            let _no_replay = self.reporter.tell(action).await?;
        }
        self.reporter.tell_status(self.source.status(self.started.elapsed())).await
    }

    async fn ask(&mut self, actions: &mut Vec<crate::events::SourceAction>) -> Result<bool, String> {
        let answer =
            post(&self.client, &self.url, PATH, Vec::new()).await.map_err(|error| error.to_string())?;
        if answer.status != StatusCode::OK {
            return Err(format!("status {}", answer.status));
        }
        let has_events = self.source.answered(&answer.body, actions);
        has_events.ok_or_else(|| "the answer is no list of events".to_owned())
    }

    /// Once a change, since questions never end.
    fn tell_error(&mut self, error: String) {
        if error != self.last_error {
            tracing::warn!(
                source = format!("{}{PATH}", self.url),
                error,
                "no kv events from here, trying again"
            );
            self.last_error = error;
        }
    }

    fn tell_ranks(&mut self) {
        if self.source.has_other_ranks() && !std::mem::replace(&mut self.has_told_ranks, true) {
            tracing::warn!(
                source = format!("{}{PATH}", self.url),
                "the engine has several attention ranks and picks one itself: only the first one's cache is followed"
            );
        }
    }
}
