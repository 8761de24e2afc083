//! Sums of series that must stand in a relation, told with their names and amounts where they do not.

use std::fmt;

/// What was found wrong.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Whose books are looked at.
    subject: String,
    faults: Vec<String>,
}

/// A sum of named amounts.
#[derive(Debug)]
pub(super) struct Side<'a>(pub(super) &'a [(&'static str, u64)]);

// === impl Findings ===

impl Findings {
    /// What follows is about this one.
    pub(super) fn about(&mut self, subject: impl Into<String>) {
        self.subject = subject.into();
    }

    /// Both sides must be the same to the unit.
    pub(super) fn equal(&mut self, left: &[(&'static str, u64)], right: &[(&'static str, u64)]) {
        self.require(Side(left).sum() == Side(right).sum(), &Side(left), "=", &Side(right));
    }

    /// The left side must not be above the right one.
    pub(super) fn at_most(&mut self, left: &[(&'static str, u64)], right: &[(&'static str, u64)]) {
        self.require(Side(left).sum() <= Side(right).sum(), &Side(left), "≤", &Side(right));
    }

    /// Anything else that must hold, in words.
    pub(super) fn holds(&mut self, is_true: bool, rule: impl FnOnce() -> String) {
        if !is_true {
            self.faults.push(format!("{}: {}", self.subject, rule()));
        }
    }

    /// All of it.
    pub(super) fn into_faults(self) -> Vec<String> {
        self.faults
    }

    fn require(&mut self, is_true: bool, left: &Side<'_>, relation: &str, right: &Side<'_>) {
        self.holds(is_true, || {
            let difference = left.sum().abs_diff(right.sum());
            format!("{left} {relation} {right} is off by {difference}: {left:#} against {right:#}")
        });
    }
}

// === impl Side ===

impl Side<'_> {
    fn sum(&self) -> u64 {
        self.0.iter().map(|(_, amount)| amount).sum()
    }
}

/// The names; with `#` the amounts.
impl fmt::Display for Side<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, amount)) in self.0.iter().enumerate() {
            let plus = if position > 0 { " + " } else { "" };
            match f.alternate() {
                true => write!(f, "{plus}{amount}")?,
                false => write!(f, "{plus}{name}")?,
            }
        }
        Ok(())
    }
}
