//! Rows of the catalogue for who reads an exposition: the demo and tests find a family by what it means, so
//! that its name stays spelled in one place.

use crate::{Row, catalogue};

/// Input tokens received.
pub const INPUT_TOKENS: &Row = &catalogue::INPUT_TOKENS;
/// Longest cached prefix on a worker rank that could be picked.
pub const BEST_CACHED: &Row = &catalogue::BEST_CACHED;
/// Cached prefix on the worker rank that was picked.
pub const SELECTED_CACHED: &Row = &catalogue::SELECTED_CACHED;
/// Tokens that workers report to have reused.
pub const WORKER_REUSED: &Row = &catalogue::WORKER_REUSED;
/// Input tokens of the attempts whose report was counted.
pub const REPORTED_INPUT: &Row = &catalogue::REPORTED_INPUT;
/// Attempts that were booked on a worker.
pub const BOOKINGS: &Row = &catalogue::BOOKINGS;
/// Attempts that are over.
pub const ATTEMPTS: &Row = &catalogue::ATTEMPTS;
/// Tokens lost between two stages of the funnel, by stage and reason.
pub const REUSE_LOST: &Row = &catalogue::REUSE_LOST;
/// Tokens of which a later stage had more than the earlier one.
pub const REUSE_SURPLUS: &Row = &catalogue::REUSE_SURPLUS;
/// What the index promised, of the attempts that were compared.
pub const COMPARED_PREDICTED: &Row = &catalogue::COMPARED_PREDICTED;
/// What the workers reused, of the same attempts.
pub const COMPARED_REPORTED: &Row = &catalogue::COMPARED_REPORTED;
