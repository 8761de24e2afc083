//! Exactly-once accounting of routing attempts: the cache-reuse funnel.
//!
//! An [`AttemptLedger`] opens at selection with what the router counted (F0), what its history knew (F1) and what the index knew
//! (A, F2, F3), takes the engine's reports (F4), holds them against F3, and closes once; a loss whose reason
//! shows only later leaves it as a [`PendingDelivery`]. Where the numbers go is a [`FunnelSink`]:
//! the accounting knows no metric library, so that the live router and a replay run the same code.
//!
//! Query-only selections never create a ledger, and thereby leave no trace in any total.

#![forbid(unsafe_code)]

mod delivery;
mod history;
mod judgement;
mod ledger;
mod losses;
mod missing;
mod opening;
mod sink;
mod unavailable;

pub use delivery::{Delivery, DeliveryReason, PendingDelivery};
pub use history::{HistoryLoss, HistoryTerms, NewReason, ResidencyReason};
pub use judgement::{Judgement, ReportOutcome};
pub use ledger::AttemptLedger;
pub use losses::{AbsentLoss, LossStage, SelectionLosses};
pub use missing::MissingBlock;
pub use opening::{CachedStages, Count, LedgerTerms, Opening, ReportExpectation, UncountedReason};
pub use sink::{Close, Closed, Closing, FunnelSink, HistoryObservation};
pub use unavailable::{UnavailableLoss, UnavailableReason};
