//! The state machine of one rank's event stream, driven by its sockets.

use std::time::Duration;

use kvroute_zmtp::Endpoint;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::reporter::{Reporter, Unheard};
use super::{EventStream, SourceUpdate};
use crate::HttpClient;
use crate::events::link::{LinkEvent, Way, keep_subscribed};
use crate::events::replay::{AHEAD_MESSAGES, ReplayEvent, replay};
use crate::events::start_time::ask_start_time;
use crate::events::{Source, SourceAction, SourceIncident, SourceReason};
use crate::http::small_client;
use crate::tls::UpstreamTls;

/// Messages that wait between a socket and the state machine.
const QUEUE: usize = 64;
/// How often the state is looked at when nothing happens.
const TICK: Duration = Duration::from_secs(1);
/// Least time between the starts of two replays: a publisher whose numbers jump with each message must not turn into
/// a storm of connections.
const REPLAY_INTERVAL: Duration = Duration::from_millis(100);

/// Follows a stream until told to stop or until nobody receives the updates.
pub(super) async fn drive(
    stream: EventStream,
    way: Way,
    updates: mpsc::Sender<SourceUpdate>,
    stop: CancellationToken,
    tls: &UpstreamTls,
) {
    let EventStream { rank, replay, topic, resume, start_time_url, block_size, events: _ } = stream;
    let mut tasks = JoinSet::new();
    let (link_sender, link) = mpsc::channel(QUEUE);
    tasks.spawn(keep_subscribed(way, topic, link_sender));
    let source = match resume {
        Some(last) => Source::resumed(replay.is_some(), Duration::ZERO, last),
        None => Source::new(replay.is_some(), Duration::ZERO),
    };
    let mut driver = Driver {
        source: source.expecting(block_size),
        reporter: Reporter::new(rank, updates),
        started: Instant::now(),
        tasks,
        link,
        replay_socket: replay,
        replay: None,
        replay_begins: None,
        replay_error: String::new(),
        has_told_foreign: false,
        metrics: start_time_url.map(|url| (small_client(tls), url)),
        start: None,
    };
    let _nobody_listens = stop.run_until_cancelled(driver.run()).await;
    driver.tasks.shutdown().await;
}

struct Driver {
    source: Source,
    reporter: Reporter,
    started: Instant,
    /// The live channel, replays and questions for the engine's start.
    tasks: JoinSet<()>,
    link: mpsc::Receiver<LinkEvent>,
    replay_socket: Option<Endpoint>,
    replay: Option<Running<ReplayEvent>>,
    /// When the last replay began or will begin.
    replay_begins: Option<Instant>,
    /// Why the last replay failed; empty if it did not.
    replay_error: String,
    /// Whether it was said that the replay socket is another engine's.
    has_told_foreign: bool,
    /// Where to ask when the engine was started.
    metrics: Option<(HttpClient, String)>,
    start: Option<Running<Option<Duration>>>,
}

/// A task and what it brings; given up when dropped.
struct Running<T> {
    task: AbortHandle,
    brings: mpsc::Receiver<T>,
}

// === impl Driver ===

impl Driver {
    async fn run(&mut self) -> Result<(), Unheard> {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut actions = Vec::new();
        loop {
            tokio::select! {
                Some(event) = self.link.recv() => self.take_link_event(event, &mut actions),
                event = next(&mut self.replay) => self.take_replay_event(event, &mut actions),
                start = next(&mut self.start) => self.take_start(start.flatten(), &mut actions),
                Some(_) = self.tasks.join_next() => {}
                _ = tick.tick() => self.source.tick(self.started.elapsed(), &mut actions),
            }
            self.tell_foreign_replay();
            if !self.source.is_catching_up() {
                self.replay = None;
            }
            for action in actions.drain(..) {
                if let Some(from) = self.reporter.tell(action).await? {
                    self.replay = self.start_replay(from);
                }
            }
            self.reporter.tell_status(self.source.status(self.started.elapsed())).await?;
        }
    }

    fn take_link_event(&mut self, event: LinkEvent, actions: &mut Vec<SourceAction>) {
        match event {
            LinkEvent::Connected => {
                self.source.connected(actions);
                self.start = self.ask_start();
            }
            LinkEvent::Batch { sequence, payload } => self.source.live(sequence, payload, actions),
            LinkEvent::Disconnected => {
                self.start = None;
                self.source.disconnected(self.started.elapsed());
                actions.push(SourceAction::Count(SourceIncident::Disconnected));
            }
        }
    }

    fn take_replay_event(&mut self, event: Option<ReplayEvent>, actions: &mut Vec<SourceAction>) {
        match event {
            Some(ReplayEvent::Batch { sequence, payload, place }) => {
                self.source.replayed(sequence, &payload, actions);
                drop(place);
            }
            Some(ReplayEvent::Ended) => {
                self.replay = None;
                self.replay_error.clear();
                self.source.replay_ended(actions);
            }
            Some(ReplayEvent::BrokeOff(error)) => {
                self.tell_replay_error(error);
                self.replay = None;
                self.source.replay_broke_off(actions);
            }
            Some(ReplayEvent::Failed(error)) => {
                self.tell_replay_error(error);
                self.fail_replay(actions);
            }
            // A task that ends without a last word.
            None => self.fail_replay(actions),
        }
    }

    fn fail_replay(&mut self, actions: &mut Vec<SourceAction>) {
        self.replay = None;
        self.source.replay_failed(actions);
    }

    /// Once a change: an engine without a working replay socket is asked again at each gap.
    fn tell_replay_error(&mut self, error: String) {
        if error != self.replay_error {
            let source = self.replay_socket.as_ref().map(ToString::to_string);
            tracing::warn!(source, error, "replay of kv events failed");
            self.replay_error = error;
        }
    }

    /// Where the live messages begin with the first, nothing is missing and no state shows it.
    fn tell_foreign_replay(&mut self) {
        let is_foreign = self.source.has_foreign_replay();
        if is_foreign && !self.has_told_foreign {
            let source = self.replay_socket.as_ref().map(ToString::to_string);
            let reason = SourceReason::ReplayOfAnother;
            tracing::warn!(source, %reason, "replay of kv events given up, live events alone count");
        }
        self.has_told_foreign = is_foreign;
    }

    fn start_replay(&mut self, from: u64) -> Option<Running<ReplayEvent>> {
        self.replay = None;
        let endpoint = self.replay_socket.clone()?;
        let now = Instant::now();
        let begins = match self.replay_begins {
            // The one that this one replaces has not begun: its place is free.
            Some(scheduled) if scheduled > now => scheduled,
            Some(last) => now.max(last + REPLAY_INTERVAL),
            None => now,
        };
        self.replay_begins = Some(begins);
        Some(self.spawn(AHEAD_MESSAGES, |sender| async move {
            tokio::time::sleep_until(begins).await;
            replay(endpoint, from, sender).await;
        }))
    }

    fn ask_start(&mut self) -> Option<Running<Option<Duration>>> {
        self.start = None;
        let (client, url) = self.metrics.clone()?;
        self.source.await_start();
        Some(self.spawn(1, |sender| async move {
            // A driver that has lost interest is no failure.
            let _ = sender.send(ask_start_time(&client, &url).await).await;
        }))
    }

    fn take_start(&mut self, start: Option<Duration>, actions: &mut Vec<SourceAction>) {
        self.start = None;
        self.source.started(start, actions);
    }

    fn spawn<T, F>(&mut self, queue: usize, work: impl FnOnce(mpsc::Sender<T>) -> F) -> Running<T>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, brings) = mpsc::channel(queue);
        Running { task: self.tasks.spawn(work(sender)), brings }
    }
}

// === impl Running ===

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Pends while nothing runs; `None` from a task that is over.
async fn next<T>(running: &mut Option<Running<T>>) -> Option<T> {
    match running {
        Some(running) => running.brings.recv().await,
        None => std::future::pending().await,
    }
}
