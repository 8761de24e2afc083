//! The lines that wait for a request, or that many share.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::line::Line;
use super::shared::SharedLine;
use super::{IDLE, Target, Way};

/// What is open to the workers of one pool and not in a request's hands.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    by_target: HashMap<Target, OpenTo>,
    /// Whether a task looks after lines that nobody asks for.
    is_swept: bool,
    /// That task, and those of shared lines.
    tasks: JoinSet<()>,
}

/// What is open to one target.
#[derive(Debug, Default)]
struct OpenTo {
    /// The one that was used last is the last, and the next to be used.
    free: Vec<Free>,
    shared: Option<(SharedLine, Instant)>,
}

#[derive(Debug)]
struct Free {
    line: Box<Line>,
    since: Instant,
}

// === impl Lines ===

impl Lines {
    /// A way to a target that its worker has not closed.
    pub(super) fn way(&self, target: &Target) -> Option<Way> {
        let now = Instant::now();
        loop {
            let Free { mut line, since } = {
                let mut open = self.0.lock();
                let to_target = open.by_target.get_mut(target)?;
                if let Some(shared) = to_target.shared(now) {
                    return Some(Way::Shared(shared));
                }
                to_target.free.pop()?
            };
            if now.duration_since(since) < IDLE && line.is_free() {
                return Some(Way::Own(line));
            }
        }
    }

    /// A line whose answer has ended waits for the next request, if it can take one.
    pub(super) fn put(self: &Arc<Self>, mut line: Box<Line>) {
        if line.is_free() {
            let mut open = self.0.lock();
            open.by_target
                .entry(line.target().clone())
                .or_default()
                .free
                .push(Free { line, since: Instant::now() });
            self.have_swept(&mut open);
        }
    }

    /// Requests to this target share a line from here on.
    pub(super) fn share(
        self: &Arc<Self>,
        target: &Target,
        line: &SharedLine,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut open = self.0.lock();
        open.spawn(connection);
        open.by_target.entry(target.clone()).or_default().shared = Some((line.clone(), Instant::now()));
        self.have_swept(&mut open);
    }

    /// Requests to this target need new lines.
    pub(super) fn forget(&self, target: &Target) {
        let forgotten = self.0.lock().by_target.remove(target);
        drop(forgotten);
    }

    /// Lines that nobody takes are closed by a task that ends once none is left.
    fn have_swept(self: &Arc<Self>, open: &mut Open) {
        if !std::mem::replace(&mut open.is_swept, true) {
            open.spawn(sweep(Arc::downgrade(self)));
        }
    }
}

async fn sweep(lines: Weak<Lines>) {
    loop {
        sleep(IDLE / 4).await;
        let Some(lines) = lines.upgrade() else { return };
        let (idle, is_swept) = {
            let mut open = lines.0.lock();
            let idle = open.take_idle(Instant::now());
            open.is_swept = !open.by_target.is_empty();
            (idle, open.is_swept)
        };
        drop(idle);
        if !is_swept {
            return;
        }
    }
}

// === impl OpenTo ===

impl OpenTo {
    /// The line that requests share.
    fn shared(&mut self, now: Instant) -> Option<SharedLine> {
        let (line, last_used) = self.shared.as_mut()?;
        *last_used = now;
        (!line.is_closed()).then(|| line.clone())
    }
}

// === impl Open ===

impl Open {
    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(task);
    }

    /// What was not used for too long; returned, so that nobody waits while it is closed.
    fn take_idle(&mut self, now: Instant) -> Vec<OpenTo> {
        let is_idle = |since: Instant| now.duration_since(since) >= IDLE;
        let mut idle = Vec::new();
        self.by_target.retain(|_, open| {
            let fresh = open.free.iter().position(|free| !is_idle(free.since)).unwrap_or(open.free.len());
            let free = open.free.drain(..fresh).collect();
            let shared = open.shared.take_if(|(line, last_used)| line.is_closed() || is_idle(*last_used));
            idle.push(OpenTo { free, shared });
            !open.free.is_empty() || open.shared.is_some()
        });
        idle
    }
}
