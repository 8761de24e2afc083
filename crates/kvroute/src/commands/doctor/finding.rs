//! A finding: what is wrong, how much it matters, and what to change.

use std::borrow::Cow;
use std::cmp::Reverse;

use serde::Serialize;

use super::collected::Patient;
use super::findings;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// Something could be better; nothing is lost.
    Hint,
    /// Telemetry is lost: a part of the funnel stays unknown.
    Warning,
    /// What a router would do or say is wrong.
    Error,
}

/// One thing to know about a worker, or about several beside each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// Stable name, for programs.
    pub(super) code: Cow<'static, str>,
    /// What is so.
    pub(super) message: String,
    /// What to change.
    pub(super) remedy: String,
}

/// Everything that was found.
#[derive(Debug)]
pub(super) struct Diagnosis {
    /// One list a worker, in the workers' order.
    pub(super) workers: Vec<Vec<Finding>>,
    /// Between workers.
    pub(super) fleet: Vec<Finding>,
}

// === impl Severity ===

impl Severity {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Hint => "hint",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

// === impl Finding ===

impl Finding {
    pub(super) fn error(code: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message, remedy)
    }

    pub(super) fn warning(code: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message, remedy)
    }

    pub(super) fn hint(code: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Hint, code, message, remedy)
    }

    pub(super) fn new(
        severity: Severity,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { severity, code: code.into(), message: message.into(), remedy: remedy.into() }
    }
}

// === impl Diagnosis ===

impl Diagnosis {
    pub(super) fn of(patients: &[Patient]) -> Self {
        let mut workers: Vec<_> = patients.iter().map(findings::of_worker).collect();
        for findings in &mut workers {
            findings.sort_by_key(|finding| Reverse(finding.severity));
        }
        Self { workers, fleet: findings::of_fleet(patients) }
    }

    /// Findings that matter at least so much.
    pub(super) fn count_from(&self, severity: Severity) -> usize {
        let all = self.workers.iter().flatten().chain(&self.fleet);
        all.filter(|finding| finding.severity >= severity).count()
    }
}
