//! One reason of one stage of the loss ledger.

use kvroute_core::{Tokens, TokensPerSecond};
use kvroute_funnel::LossStage;
use prometheus::{Counter, IntCounter};

use crate::families::Families;
use crate::series::Scope;

/// What was lost for one reason.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(super) tokens: IntCounter,
    pub(super) seconds: Counter,
}

// === impl Loss ===

impl Loss {
    /// Its series, of a phase and model.
    pub(super) fn new(
        families: &Families,
        scope: &mut Scope,
        [phase, model]: [&str; 2],
        stage: LossStage,
        reason: &'static str,
    ) -> Self {
        Self {
            tokens: scope.hold(&families.reuse_lost, [phase, model, stage.as_str(), reason]),
            seconds: scope.hold(&families.lost_seconds, [model, stage.as_str(), reason]),
        }
    }

    /// Tokens take no time as long as nobody has seen how fast the worker is.
    pub(super) fn add(&self, tokens: Tokens, speed: Option<TokensPerSecond>) {
        if tokens.is_zero() {
            return;
        }
        self.tokens.inc_by(tokens.get());
        if let Some(speed) = speed {
            self.seconds.inc_by(speed.seconds_for(tokens));
        }
    }
}
