//! What is logged in this process, by whomever.

use std::fmt::{Debug, Write};
use std::sync::OnceLock;

use parking_lot::Mutex;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;

/// All entries since the first call of [`capture`]. Tests of one process share it.
static ENTRIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// One entry, with everything in it as one text.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) level: Level,
    pub(crate) target: String,
    pub(crate) text: String,
}

struct Capture;

struct Text(String);

/// Keeps from now on what is logged.
pub(crate) fn capture() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        tracing::subscriber::set_global_default(Registry::default().with(Capture)).unwrap();
    });
}

/// Every entry in which a text occurs.
pub(crate) fn with(text: &str) -> Vec<Entry> {
    ENTRIES.lock().iter().filter(|entry| entry.text.contains(text)).cloned().collect()
}

/// This crate's warnings about a server.
pub(crate) fn warnings(server: &str) -> usize {
    with(&format!("server={server} ")).iter().filter(|entry| entry.is_warning()).count()
}

// === impl Entry ===

impl Entry {
    pub(crate) fn is_warning(&self) -> bool {
        self.level <= Level::WARN && self.target.starts_with("kvroute")
    }
}

// === impl Capture ===

impl<S: Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (mut text, metadata) = (Text(String::new()), event.metadata());
        event.record(&mut text);
        let entry = Entry { level: *metadata.level(), target: metadata.target().to_owned(), text: text.0 };
        ENTRIES.lock().push(entry);
    }
}

// === impl Text ===

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}
