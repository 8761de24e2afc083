//! A stream whose next part is asked of another worker, beside the stream itself: the client may not read meanwhile.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use kvroute_funnel::Close;
use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use super::Streams;
use crate::error::{Reason, RouteError};
use crate::migration::{BrokenStream, Continuation, Migration};

/// The next part, or why there is none.
pub(super) type Next = Result<Box<Continuation>, Reason>;

/// A stream between two workers.
#[derive(Debug)]
pub(super) struct Elsewhere {
    next: Receiver<Next>,
    task: AbortOnDropHandle<()>,
    /// What the client is told if nobody goes on.
    pub(super) broken: RouteError,
}

// === impl Elsewhere ===

impl Elsewhere {
    /// Asks for the next part. Dropping it gives everything back that the next worker was given.
    pub(super) fn ask(
        migration: Migration,
        stream: BrokenStream,
        broken: RouteError,
        streams: &Streams,
    ) -> Self {
        let (answer, next) = oneshot::channel();
        let span = migration.span();
        let asking = tell(migration, stream, answer, streams.cut.clone()).instrument(span);
        Self { next, task: AbortOnDropHandle::new(streams.tasks.spawn(asking)), broken }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        Pin::new(&mut self.next).poll(context).map(|told| told.unwrap_or_else(|_| Err(gave_up())))
    }

    /// What has come; `None` as long as it is waited for.
    pub(super) fn take(&mut self) -> Option<Next> {
        self.next.try_recv().ok()
    }

    /// All streams are cut: whoever is asked ends by itself, and closes its books as it should.
    pub(super) fn leave(self) {
        drop(self.task.detach());
    }
}

async fn tell(migration: Migration, stream: BrokenStream, answer: Sender<Next>, cut: CancellationToken) {
    let next = migration.go_on(stream).await.map(Box::new);
    if let Err(Ok(unheard)) = answer.send(next)
        && cut.is_cancelled()
    {
        unheard.attempt.finish(Close::Failed);
    }
}

fn gave_up() -> Reason {
    "the router is stopping".into()
}
