//! Colours, for terminals.

use crate::commands::doctor::finding::Severity;

/// Paints or leaves text as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    is_on: bool,
}

// === impl Paint ===

impl Paint {
    pub(super) const fn new(is_on: bool) -> Self {
        Self { is_on }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// The name, all of one width.
    pub(super) fn severity(self, severity: Severity) -> String {
        let colour = match severity {
            Severity::Error => "1;31",
            Severity::Warning => "33",
            Severity::Hint => "36",
        };
        self.paint(colour, &format!("{:<7}", severity.as_str()))
    }

    fn paint(self, colour: &str, text: &str) -> String {
        if self.is_on { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
