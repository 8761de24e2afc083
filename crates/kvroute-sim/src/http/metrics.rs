//! The exposition: the families of each engine that a router reads, with that engine's labels.

mod llamacpp;
mod sglang;
mod trtllm;
mod vllm;

use std::fmt::Write;
use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::App;
use crate::config::Flavour;

/// One family: its name, its kind, what it says, and its series by labels.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    series: Vec<(String, f64)>,
}

/// The whole exposition.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let (version, families) = match app.config.flavour {
        Flavour::Vllm => ("1.0.0", vllm::families(&app)),
        Flavour::Sglang => ("0.0.4", sglang::families(&app)),
        Flavour::TrtLlm => ("0.0.4", trtllm::families(&app)),
        Flavour::LlamaCpp => ("0.0.4", llamacpp::families(&app)),
    };
    let content_type = [(header::CONTENT_TYPE, format!("text/plain; version={version}; charset=utf-8"))];
    (content_type, render(&families)).into_response()
}

fn render(families: &[Family]) -> String {
    let mut out = String::new();
    for Family { name, kind, help, series } in families {
        // Writing to a string cannot fail.
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in series {
            let _ = match labels.as_str() {
                "" => writeln!(out, "{name} {value:?}"),
                labels => writeln!(out, "{name}{{{labels}}} {value:?}"),
            };
        }
    }
    out
}

fn gauge(name: &'static str, help: &'static str, series: Vec<(String, f64)>) -> Family {
    Family { name, kind: "gauge", help, series }
}

fn counter(name: &'static str, help: &'static str, series: Vec<(String, f64)>) -> Family {
    Family { name, kind: "counter", help, series }
}

/// When the process started, as Python's client library tells it.
fn start_time(app: &App) -> Family {
    let started = app.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let help = "Start time of the process since unix epoch in seconds.";
    gauge("process_start_time_seconds", help, vec![(String::new(), started.as_secs_f64())])
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
