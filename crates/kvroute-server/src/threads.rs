//! The threads that serve clients, each with an async runtime of its own.
//!
//! A connection stays on its thread, with the requests that come over it and the lines to the workers that they are sent
//! over. So a piece of a stream wakes one thread, which reads it, looks at it and writes it on; on a runtime that shares its
//! tasks among threads, about three more are woken with each request, to find that there is nothing to do.

use std::future::Future;
use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, available_parallelism};

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The threads of one server. They end with it.
#[derive(Debug)]
pub(crate) struct Threads {
    all: Arc<[Thread]>,
    _running: DropGuard,
}

/// Where connections are served.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// On the runtime that accepts them.
    Here,
    /// On threads of their own.
    On(Arc<[Thread]>),
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Thread {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// Counts a connection among those of its thread until it is dropped.
struct Counted(Arc<AtomicUsize>);

// === impl Threads ===

impl Threads {
    /// As many as there are cores to use.
    pub(crate) fn start() -> io::Result<Self> {
        let stop = CancellationToken::new();
        let count = available_parallelism().map_or(1, NonZero::get);
        let all = (0..count).map(|number| Thread::start(number, stop.clone())).collect::<io::Result<_>>();
        let running = stop.drop_guard();
        Ok(Self { all: all?, _running: running })
    }

    /// To serve connections on.
    pub(crate) fn place(&self) -> Place {
        Place::On(Arc::clone(&self.all))
    }
}

// === impl Place ===

impl Place {
    /// Serves a connection among `connections`, on the thread that has fewest.
    pub(crate) fn serve<S, F>(&self, connections: &mut JoinSet<()>, socket: TcpStream, serve: S)
    where
        S: FnOnce(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let threads = match self {
            Self::Here => return drop(connections.spawn(serve(socket))),
            Self::On(threads) => threads,
        };
        let Some(thread) = threads.iter().min_by_key(|thread| thread.connections.load(Ordering::Relaxed))
        else {
            return;
        };
        let counted = Counted::on(thread);
        let socket = socket.into_std();
        let served = async move {
            let _counted = counted;
            match socket.and_then(TcpStream::from_std) {
                Ok(socket) => serve(socket).await,
                Err(error) => tracing::warn!(%error, "an accepted connection cannot be served"),
            }
        };
        connections.spawn_on(served, &thread.runtime);
    }
}

// === impl Thread ===

impl Thread {
    /// Started on the thread itself: a runtime must not be dropped where another one runs.
    fn start(number: usize, stop: CancellationToken) -> io::Result<Self> {
        let (sender, started) = mpsc::channel();
        thread::Builder::new().name(format!("serving-{number}")).spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let _is_awaited = sender
                .send(runtime.as_ref().map(|runtime| runtime.handle().clone()).map_err(io::Error::kind));
            if let Ok(runtime) = runtime {
                runtime.block_on(stop.cancelled());
            }
        })?;
        let runtime = started.recv().map_err(io::Error::other)??;
        Ok(Self { runtime, connections: Arc::default() })
    }
}

// === impl Counted ===

impl Counted {
    fn on(thread: &Thread) -> Self {
        thread.connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&thread.connections))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
