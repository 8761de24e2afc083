//! What wakes an operator, as alert rules for Prometheus.
//!
//! Three rules keep them quiet when nothing is wrong. A share is only judged where there is enough traffic for it to
//! mean something, so that an idle night wakes nobody. What happens once and mends itself does not last as long as a rule
//! asks for: it must hold for longer than the window that it looks at, and that window forgets. And a series that is absent, because nobody has an index or a queue there, makes no rule true; that the
//! router itself is absent is a rule of its own.

mod funnel;
mod history;
mod process;
mod sources;
mod traffic;
mod yaml;

use crate::query::{Query, Spelling};

pub use self::yaml::render as render_rules;

/// One alert rule.
#[derive(Clone, Debug)]
pub struct Alert {
    name: &'static str,
    severity: Severity,
    lasting: &'static str,
    conditions: Vec<Condition>,
    summary: &'static str,
    description: &'static str,
}

/// How soon somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Clients are hurt now.
    Critical,
    /// Reuse is lost, or clients will be hurt if nothing is done.
    Warning,
}

/// A part of a rule's expression: all of them must hold.
#[derive(Clone, Debug)]
pub struct Condition {
    value: Query,
    /// `None` where the value has a sample only while the condition holds.
    limit: Option<(&'static str, f64)>,
}

/// Rules about one thing.
#[derive(Clone, Debug)]
pub struct AlertGroup {
    name: &'static str,
    alerts: Vec<Alert>,
}

/// Input tokens within a window from which on a share of them means something.
const ENOUGH_TOKENS: f64 = 10_000.0;

/// Attempts or requests within a window from which on a share of them means something.
const ENOUGH_REQUESTS: f64 = 20.0;

/// Every alert rule, with standard families under a prefix.
pub fn alert_groups(prefix: &str) -> Vec<AlertGroup> {
    let spelling = Spelling { prefix: prefix.to_owned(), window: "10m", narrowed: &[] };
    vec![
        AlertGroup { name: "kvroute-process", alerts: process::alerts(&spelling) },
        AlertGroup { name: "kvroute-traffic", alerts: traffic::alerts(&spelling) },
        AlertGroup { name: "kvroute-sources", alerts: sources::alerts(&spelling) },
        AlertGroup { name: "kvroute-funnel", alerts: funnel::alerts(&spelling) },
        AlertGroup { name: "kvroute-history", alerts: history::alerts(&spelling) },
    ]
}

// === impl Alert ===

impl Alert {
    /// A rule without conditions, which fires once they have held for as long as `lasting` says.
    fn new(name: &'static str, severity: Severity, lasting: &'static str) -> Self {
        Self { name, severity, lasting, conditions: Vec::new(), summary: "", description: "" }
    }

    /// A condition that holds while the value compares so to the limit. The first one is the value that is told.
    fn when(self, value: Query, comparison: &'static str, limit: f64) -> Self {
        self.on(Condition { value, limit: Some((comparison, limit)) })
    }

    /// A condition that holds while there is a value.
    fn while_there_is(self, value: Query) -> Self {
        self.on(Condition { value, limit: None })
    }

    /// What is told: in a line, and in full. Both may name labels of the first value in Prometheus' templates.
    fn says(self, summary: &'static str, description: &'static str) -> Self {
        Self { summary, description, ..self }
    }

    fn on(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Its name, which is also the heading of its paragraph in `docs/alerts.md`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// How soon somebody should look.
    pub const fn severity(&self) -> Severity {
        self.severity
    }

    /// How long its conditions must hold, as Prometheus writes durations.
    pub const fn lasting(&self) -> &'static str {
        self.lasting
    }

    /// Its conditions.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// What is told in a line, with templates.
    pub const fn summary(&self) -> &'static str {
        self.summary
    }

    /// What is told in full, with templates.
    pub const fn description(&self) -> &'static str {
        self.description
    }

    /// Where it is explained.
    pub fn runbook(&self) -> String {
        format!("docs/alerts.md#{}", self.name.to_lowercase())
    }

    /// The rule's expression, one condition a line.
    pub fn expression(&self) -> String {
        let conditions: Vec<_> = self.conditions.iter().map(Condition::text).collect();
        conditions.join("\nand ")
    }
}

// === impl Severity ===

impl Severity {
    /// The value of the label `severity`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

// === impl Condition ===

impl Condition {
    /// The value that is compared.
    pub const fn value(&self) -> &Query {
        &self.value
    }

    /// Whether the value exists in good health too, to be compared.
    pub const fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    fn text(&self) -> String {
        match self.limit {
            Some((comparison, limit)) => format!("{} {comparison} {limit}", self.value.text()),
            None => self.value.text().to_owned(),
        }
    }
}

// === impl AlertGroup ===

impl AlertGroup {
    /// The group's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its rules.
    pub fn alerts(&self) -> &[Alert] {
        &self.alerts
    }
}
