//! What an operator looks at, as dashboards for Grafana.
//!
//! A dashboard is described here by what its panels mean; how Grafana wants that written is in [`grafana`]. Shares are
//! made of sums at query time, over families of one population. A panel that asks for a share of nothing shows nothing,
//! which is the truth; a panel about faults shows 0 in good health.

mod funnel;
mod grafana;
mod history;
mod traffic;
mod workers;

use kvroute_metrics::rows;
use serde_json::Value;

use crate::query::{Query, Spelling};

/// One page of panels.
#[derive(Clone, Debug)]
pub struct Dashboard {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    sections: Vec<Section>,
}

/// Panels under one heading.
#[derive(Clone, Debug)]
struct Section {
    title: &'static str,
    panels: Vec<Panel>,
}

/// One picture.
#[derive(Clone, Debug)]
pub struct Panel {
    title: &'static str,
    about: &'static str,
    unit: Unit,
    view: View,
    width: u32,
    targets: Vec<Target>,
}

/// One query of a panel.
#[derive(Clone, Debug)]
struct Target {
    /// Its name in the legend, with labels as Grafana's templates name them.
    legend: &'static str,
    query: Query,
}

/// How a panel shows its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// A line a series.
    Lines,
    /// Areas on top of each other: parts of a whole.
    Stacked,
    /// The latest values in large figures.
    Figures,
    /// A bar a value, over the whole time that is looked at.
    Bars,
    /// A band a series: which of several states held when.
    Bands,
}

/// What a panel's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Tokens,
    TokensPerSecond,
    Share,
    Seconds,
    SecondsPerSecond,
    Milliseconds,
    Blocks,
    BlocksPerSecond,
    Bytes,
    PerSecond,
    Count,
}

/// What Grafana puts in for the variables `model`, `phase` and `worker`.
const NARROWED: [(&str, &str); 3] = [("model", "$model"), ("phase", "$phase"), ("worker_id", "$worker")];

/// The words that the dashboards are asked for by, in order.
pub const DASHBOARD_NAMES: [&str; 4] = ["funnel", "history", "workers", "traffic"];

/// Every dashboard, with standard families under a prefix.
pub fn dashboards(prefix: &str) -> Vec<Dashboard> {
    let spelling =
        Spelling { prefix: prefix.to_owned(), window: "$__rate_interval", narrowed: NARROWED.as_slice() };
    vec![
        funnel::dashboard(&spelling),
        history::dashboard(&spelling),
        workers::dashboard(&spelling),
        traffic::dashboard(&spelling),
    ]
}

/// Several dashboards in one JSON object, by name.
pub fn render_dashboards(dashboards: &[Dashboard]) -> String {
    let by_name = dashboards.iter().map(|dashboard| (dashboard.name.to_owned(), grafana::json(dashboard)));
    format!("{:#}\n", Value::Object(by_name.collect()))
}

// === impl Dashboard ===

impl Dashboard {
    /// The word that it is asked for by.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its panels, in order.
    pub fn panels(&self) -> impl Iterator<Item = &Panel> {
        self.sections.iter().flat_map(|section| &section.panels)
    }

    fn is_narrowed_by(&self, variable: &str) -> bool {
        let matcher = format!("=~\"${variable}\"");
        self.panels().flat_map(Panel::queries).any(|query| query.text().contains(&matcher))
    }

    /// The file that Grafana imports.
    pub fn to_json(&self) -> String {
        format!("{:#}\n", grafana::json(self))
    }

    /// The variables of every dashboard: name, a query, and the label of its series that gives their values. Their
    /// families are the router's own, so that no prefix changes them.
    pub fn variables() -> [(&'static str, Query, &'static str); 3] {
        let plain = Spelling { prefix: String::new(), window: "", narrowed: &[] };
        [
            ("model", plain.now(rows::REQUESTS), "model"),
            ("phase", plain.now(rows::ATTEMPTS), "phase"),
            ("worker", plain.now(rows::WORKER_STATE), "worker_id"),
        ]
    }
}

// === impl Section ===

impl Section {
    fn new(title: &'static str, panels: Vec<Panel>) -> Self {
        Self { title, panels }
    }
}

// === impl Panel ===

impl Panel {
    fn new(view: View, title: &'static str, unit: Unit) -> Self {
        Self { title, about: "", unit, view, width: 12, targets: Vec::new() }
    }

    fn lines(title: &'static str, unit: Unit) -> Self {
        Self::new(View::Lines, title, unit)
    }

    fn stacked(title: &'static str, unit: Unit) -> Self {
        Self::new(View::Stacked, title, unit)
    }

    fn figures(title: &'static str, unit: Unit) -> Self {
        Self { width: 6, ..Self::new(View::Figures, title, unit) }
    }

    fn bars(title: &'static str, unit: Unit) -> Self {
        Self::new(View::Bars, title, unit)
    }

    fn bands(title: &'static str, unit: Unit) -> Self {
        Self { width: 24, ..Self::new(View::Bands, title, unit) }
    }

    /// What it means, and what to do about it.
    fn says(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// Over the whole width.
    fn wide(self) -> Self {
        Self { width: 24, ..self }
    }

    /// A third of the width.
    fn narrow(self) -> Self {
        Self { width: 8, ..self }
    }

    fn shows(mut self, legend: &'static str, query: Query) -> Self {
        self.targets.push(Target { legend, query });
        self
    }

    /// What it is called.
    pub const fn title(&self) -> &'static str {
        self.title
    }

    /// What it means, and what to do about it.
    pub const fn about(&self) -> &'static str {
        self.about
    }

    /// What it asks.
    pub fn queries(&self) -> impl Iterator<Item = &Query> {
        self.targets.iter().map(|target| &target.query)
    }
}
