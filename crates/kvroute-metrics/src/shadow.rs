//! The metrics of the policies that are only asked.

use kvroute_core::{ModelName, Tokens};
use prometheus::IntCounter;

use crate::families::Families;
use crate::series::Scope;

/// What one shadow policy would have found.
#[derive(Debug)]
pub(crate) struct ShadowCounters {
    pub(crate) policy: &'static str,
    selected: IntCounter,
    input: IntCounter,
}

// === impl ShadowCounters ===

impl ShadowCounters {
    pub(crate) fn new(
        families: &Families,
        model: &ModelName,
        policy: &'static str,
        scope: &mut Scope,
    ) -> Self {
        let pair = [model.as_str(), policy];
        Self {
            policy,
            selected: scope.hold(&families.shadow_selected, pair),
            input: scope.hold(&families.shadow_input, pair),
        }
    }

    /// The input first: a scrape in between must not see a share above 1.
    pub(crate) fn compared(&self, input: Tokens, selected: Tokens) {
        self.input.inc_by(input.get());
        self.selected.inc_by(selected.get());
    }
}
