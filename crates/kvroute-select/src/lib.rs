//! Who gets the next attempt: the load that is booked, what a candidate would cost, and the policy that picks.
//!
//! Everything here is a pure state machine. One owner holds the load book and the policy of a pool and takes
//! a decision and its booking in one step, so that the next decision already sees it. Given the same
//! candidates and the same random numbers, every policy gives the same answer.

#![forbid(unsafe_code)]

mod candidate;
mod cost;
mod load_book;
mod passed_over;
pub mod policy;
mod selector;
mod waiting_line;
mod weights;

pub use candidate::{Affinity, AffinityKey, Candidate, RequestShape};
pub use cost::{Cost, CostTerms, WeightedBlocks};
pub use kvroute_core::Exclusion;
pub use load_book::{BookedPrompt, Booking, LoadBook, RecentView};
pub use policy::{Bound, NoCandidate, Pick, PickReason, Policy, PolicyOptions, Refusal, UnknownPolicy};
pub use selector::{Decided, ForeignLoad, Nobody, Question, RankView, Selector};
pub use waiting_line::{LineFull, QueueOrder, Ticket, TicketId, WaitingLine};
pub use weights::{CostWeights, InvalidWeight};
