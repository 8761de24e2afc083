//! One engine of the fleet, and when it wants to be looked at.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result};
use kvroute_core::{KvEvent, TokenId};
use kvroute_sim::{SimConfig, StartError, VirtualEngine, VirtualId, VirtualToken};

/// An engine and the requests that it works on.
#[derive(Debug)]
pub(super) struct Worker {
    engine: VirtualEngine,
    requests: HashMap<VirtualId, u64>,
    /// When somebody looks next.
    due: Option<Duration>,
    is_stuck: bool,
}

/// What an engine did, by the fleet's numbers of requests.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) tokens: Vec<(u64, VirtualToken)>,
    pub(super) events: Vec<KvEvent>,
}

// === impl Worker ===

impl Worker {
    pub(super) fn new(config: &SimConfig) -> Result<Self, StartError> {
        Ok(Self { engine: VirtualEngine::new(config)?, requests: HashMap::new(), due: None, is_stuck: false })
    }

    pub(super) fn submit(&mut self, id: u64, prompt: &[TokenId], output: u64, now: Duration) -> Result<()> {
        if self.is_stuck {
            return Ok(());
        }
        let request = self.engine.submit(prompt, output, now);
        let request = request.with_context(|| format!("a prompt of {} tokens does not fit", prompt.len()))?;
        self.requests.insert(request, id);
        Ok(())
    }

    /// Does nothing more.
    pub(super) const fn stick(&mut self) {
        self.is_stuck = true;
    }

    /// When to look at it, if nobody does so early enough already.
    pub(super) fn newly_due(&mut self, now: Duration) -> Option<Duration> {
        let due = self.engine.next_due().filter(|_| !self.is_stuck)?.max(now);
        if self.due.is_some_and(|planned| planned <= due) {
            return None;
        }
        self.due = Some(due);
        self.due
    }

    /// Looks at it; `None` if it is not the time that was asked for last.
    pub(super) fn advance(&mut self, now: Duration) -> Option<Progress> {
        if self.is_stuck || self.due != Some(now) {
            return None;
        }
        self.due = None;
        let progress = self.engine.advance(now);
        let mut tokens = Vec::with_capacity(progress.tokens.len());
        for token in progress.tokens {
            let Some(id) = self.requests.get(&token.request) else { continue };
            tokens.push((*id, token));
            if token.is_last {
                self.requests.remove(&token.request);
            }
        }
        Some(Progress { tokens, events: progress.events })
    }
}
