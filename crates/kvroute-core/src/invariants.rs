//! What must always hold, as pure functions: shared by debug assertions, property tests and production checks.

use crate::Tokens;

/// `F3 ≤ F2 ≤ A ≤ F0` of one attempt that has an index view.
pub const fn cached_stages_are_ordered(
    selected: Tokens,
    best: Tokens,
    anywhere: Tokens,
    input: Tokens,
) -> bool {
    selected.get() <= best.get() && best.get() <= anywhere.get() && anywhere.get() <= input.get()
}

/// `F1 ≤ F0` of one attempt with history.
pub const fn history_is_within_input(history: Tokens, input: Tokens) -> bool {
    history.get() <= input.get()
}

/// Coverage at most 1: the input of a counted report is part of the input that could have been reported.
pub const fn reported_input_was_expected(reported: Tokens, expected: Tokens) -> bool {
    reported.get() <= expected.get()
}

/// What the index promised is what the engines reused, plus what was lost on the way, less what came on top:
/// `predicted = reported + lost − surplus`, of one attempt or of any number of them.
pub const fn delivery_closes(predicted: Tokens, reported: Tokens, lost: Tokens, surplus: Tokens) -> bool {
    predicted.get() as u128 + surplus.get() as u128 == reported.get() as u128 + lost.get() as u128
}
