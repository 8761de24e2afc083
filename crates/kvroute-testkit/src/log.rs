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

/// Entries that are kept; of more, the oldest are forgotten.
const KEPT: usize = 100_000;

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
    entries: Arc<Mutex<VecDeque<LogEntry>>>,
}

struct Capture {
    entries: Arc<Mutex<VecDeque<LogEntry>>>,
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
        self.entries.lock().iter().filter(|entry| condition(entry)).cloned().collect()
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
        let mut entries = self.entries.lock();
        if entries.len() == KEPT {
            entries.pop_front();
        }
        entries.push_back(entry);
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
