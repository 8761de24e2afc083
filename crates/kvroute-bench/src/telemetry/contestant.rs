//! Whoever is told of requests.

use anyhow::Result;

use super::clock::Clock;
use super::story::Story;

/// How the answer to a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Whole,
    /// In so many chunks.
    Stream(u32),
}

/// Keeps the metrics of a router. Each method tells one part of a request, as the router would.
pub(crate) trait Telemetry: Sized + Sync {
    const NAME: &'static str;

    /// With so many models, each on some ranks.
    fn new(models: usize) -> Result<Self>;

    /// The three stages of the way to a worker, entered and left.
    fn stages(&self, clock: &mut impl Clock);

    /// A decision: its reason, its parts' times, what it gave away, and what a shadow would have found.
    fn decision(&self, model: usize, story: &Story, clock: &mut impl Clock);

    /// An attempt's ledger: opened with its losses, its report judged, closed, its open loss decided.
    fn attempt(&self, model: usize, story: &Story);

    /// The client's side of it: first token, pace, length, ending; and the rank's load at each change.
    fn answer(&self, model: usize, story: &Story, answer: Answer, clock: &mut impl Clock);

    /// All series, in the text format.
    fn exposition(&self) -> Result<String>;

    /// All of a request.
    fn request(&self, model: usize, story: &Story, answer: Answer, clock: &mut impl Clock) {
        self.stages(clock);
        self.decision(model, story, clock);
        self.attempt(model, story);
        self.answer(model, story, answer, clock);
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) const fn is_streamed(self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Pieces of content that are seen.
    pub(crate) const fn pieces(self) -> u32 {
        match self {
            Self::Whole => 1,
            Self::Stream(chunks) => chunks,
        }
    }
}
