//! Logs go to standard error, so that results on standard output can be piped. No log names a prompt's text.

mod background;
mod fields;

use std::io::IsTerminal;

use kvroute_router::ACCESS;
use tracing_subscriber::filter::Directive;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, registry};

use self::background::Background;
pub(crate) use self::background::Writing;
use self::fields::LineFields;
use crate::config::LogFormat;
use crate::export::SpanLayer;
use crate::failure::Failure;

/// It says of each event, and of each message that it drops, what is counted and said once elsewhere. Who wants to hear it
/// names it in the filter.
const NATS_CLIENT: &str = "async_nats";

/// What is written, and how.
#[derive(Debug)]
pub(crate) struct Log<'a> {
    /// The filter that was typed.
    pub(crate) flag: Option<&'a str>,
    /// The filter where neither a flag nor `RUST_LOG` names one.
    pub(crate) default: &'a str,
    pub(crate) format: LogFormat,
    /// Whether requests leave lines, if the filter lets them through.
    pub(crate) access: bool,
}

// === impl Log ===

impl<'a> Log<'a> {
    /// The log of a command that is no service.
    pub(crate) const fn of_tool(flag: Option<&'a str>, default: &'a str) -> Self {
        Self { flag, default, format: LogFormat::Text, access: true }
    }

    /// Starts it. Each line is written before anything goes on.
    pub(crate) fn start(&self) -> Result<(), Failure> {
        self.start_with(std::io::stderr, None)
    }

    /// Starts it, and hands spans to `spans`. Lines are written beside the work until what is returned is dropped.
    pub(crate) fn start_beside(&self, spans: Option<SpanLayer>) -> Result<Writing, Failure> {
        let lines = Background::default();
        self.start_with(lines.clone(), spans)?;
        lines
            .to(std::io::stderr())
            .map_err(|error| Failure::while_doing("cannot start the thread that writes the log", error))
    }

    fn start_with<W>(&self, output: W, spans: Option<SpanLayer>) -> Result<(), Failure>
    where
        W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
    {
        registry()
            .with(self.lines(output)?)
            .with(spans.map(SpanLayer::filtered))
            .try_init()
            .map_err(|error| Failure::while_doing("logging cannot be started", error))
    }

    fn lines<W>(&self, output: W) -> Result<Box<dyn Layer<Registry> + Send + Sync>, Failure>
    where
        W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
    {
        let lines = fmt::layer().with_writer(output);
        Ok(match self.format {
            LogFormat::Text => {
                let lines = lines.fmt_fields(LineFields).with_ansi(std::io::stderr().is_terminal());
                lines.with_filter(self.filter()?).boxed()
            }
            LogFormat::Json => {
                let lines = lines.json().flatten_event(true).with_span_list(false);
                lines.with_filter(self.filter()?).boxed()
            }
        })
    }

    /// The flag, else `RUST_LOG`, else the command's own default.
    fn filter(&self) -> Result<EnvFilter, Failure> {
        let (source, text) = match (self.flag, std::env::var("RUST_LOG")) {
            (Some(text), _) => ("--log", text.to_owned()),
            (None, Ok(text)) if !text.is_empty() => ("RUST_LOG", text),
            (None, _) => ("default", self.default.to_owned()),
        };
        let unusable = |error: &dyn std::fmt::Display| {
            Failure::Usage(format!(
                "{source} {text:?} is no log filter: {error}; try info or kvroute_router=debug"
            ))
        };
        let filter = EnvFilter::builder().parse(&text).map_err(|error| unusable(&error))?;
        let silent = [(ACCESS, !self.access), (NATS_CLIENT, !text.contains(NATS_CLIENT))];
        let mut silent = silent.into_iter().filter_map(|(target, is_silent)| is_silent.then_some(target));
        silent.try_fold(filter, |filter, target| {
            let without: Directive = format!("{target}=off").parse().map_err(|error| unusable(&error))?;
            Ok(filter.add_directive(without))
        })
    }
}
