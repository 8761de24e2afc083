//! What the project logs in this process, for tests of what an operator is told.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;

/// Entries that are kept of each message; of more, the oldest are forgotten. A message that comes often leaves those alone that
/// come now and then.
const KEPT: usize = 20_000;

/// One entry of the log.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// When it was written.
    pub at: Instant,
    /// How grave it is.
    pub level: Level,
    /// Its words.
    pub message: String,
    /// Its values by name, as text.
    pub fields: BTreeMap<String, String>,
}

/// The log of this process from the first call to [`CapturedLog::start`] on. Tests of one process share it.
#[derive(Clone, Debug)]
pub struct CapturedLog {
    entries: Arc<Mutex<Entries>>,
}

struct Capture {
    entries: Arc<Mutex<Entries>>,
}

/// By their messages, each with its number in the order of all.
#[derive(Debug, Default)]
struct Entries {
    next: u64,
    by_message: BTreeMap<String, VecDeque<(u64, LogEntry)>>,
}

#[derive(Default)]
struct Reader {
    message: String,
    fields: BTreeMap<String, String>,
}

// === impl LogEntry ===

impl LogEntry {
    /// A field's text; empty if it is absent.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

// === impl CapturedLog ===

impl CapturedLog {
    /// Captures from now on what this project's crates log, down to debug.
    pub fn start() -> Self {
        static LOG: OnceLock<CapturedLog> = OnceLock::new();
        LOG.get_or_init(|| {
            let entries = Arc::default();
            let capture = Capture { entries: Arc::clone(&entries) };
            tracing::subscriber::set_global_default(Registry::default().with(capture))
                .expect("a test captures the log before anybody else does");
            Self { entries }
        })
        .clone()
    }

    /// Every entry that satisfies a condition, in order.
    pub fn entries(&self, condition: impl Fn(&LogEntry) -> bool) -> Vec<LogEntry> {
        let entries = self.entries.lock();
        let meant = entries.by_message.values().flatten().filter(|(_, entry)| condition(entry));
        let mut meant: Vec<_> = meant.cloned().collect();
        meant.sort_by_key(|(number, _)| *number);
        meant.into_iter().map(|(_, entry)| entry).collect()
    }
}

// === impl Capture ===

impl<S: Subscriber> Layer<S> for Capture {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target().starts_with("kvroute")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut reader = Reader::default();
        event.record(&mut reader);
        let Reader { message, fields } = reader;
        let entry = LogEntry { at: Instant::now(), level: *event.metadata().level(), message, fields };
        self.entries.lock().push(entry);
    }
}

// === impl Entries ===

impl Entries {
    fn push(&mut self, entry: LogEntry) {
        let alike = self.by_message.entry(entry.message.clone()).or_default();
        if alike.len() == KEPT {
            alike.pop_front();
        }
        alike.push_back((self.next, entry));
        self.next += 1;
    }
}

// === impl Reader ===

impl Reader {
    fn keep(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            name => drop(self.fields.insert(name.to_owned(), text)),
        }
    }
}

impl Visit for Reader {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.keep(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.keep(field, format!("{value:?}"));
    }
}
