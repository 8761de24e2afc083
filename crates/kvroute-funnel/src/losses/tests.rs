use super::*;
use crate::{HistoryTerms, MissingBlock};

/// Any reasons that close.
pub(crate) fn closing(input: Tokens, history: Option<Tokens>, stages: &CachedStages) -> SelectionLosses {
    let CachedStages { anywhere, best, selected } = *stages;
    let unavailable = || {
        let none: [[MissingBlock; 0]; 0] = [];
        AbsentLoss::Unavailable(UnavailableLoss::of(input - anywhere, Tokens::ZERO, none, false))
    };
    let by_history = |history| {
        let none: [(Tokens, [MissingBlock; 0]); 0] = [];
        let terms = HistoryTerms { input, history, anywhere, partial: Tokens::ZERO };
        AbsentLoss::ByHistory(HistoryLoss::of(terms, none, false))
    };
    SelectionLosses {
        absent: history.map_or_else(unavailable, by_history),
        eligibility: (best < anywhere).then_some(Exclusion::Unhealthy),
        placement: (selected < best).then_some(PlacementReason::Load),
    }
}

fn stages(counts: [u64; 3]) -> CachedStages {
    let [anywhere, best, selected] = counts.map(Tokens::new);
    CachedStages { anywhere, best, selected }
}

#[test]
fn losses_close_by_the_account_that_was_opened_and_by_no_other() {
    let (input, cached) = (Tokens::new(100), stages([64, 64, 64]));
    let histories = [None, Some(0), Some(64), Some(80), Some(100)].map(|history| history.map(Tokens::new));
    for opened in histories {
        let losses = closing(input, opened, &cached);
        for told in histories {
            assert_eq!(losses.close(input, told, &cached), told == opened, "{opened:?} as {told:?}");
        }
        assert!(!losses.close(Tokens::new(101), opened, &cached), "{opened:?}");
        assert!(!losses.close(input, opened, &stages([65, 65, 65])), "{opened:?}");
    }
}

#[test]
fn a_stage_has_a_reason_exactly_where_it_has_a_difference() {
    let (input, lossy, lossless) = (Tokens::new(100), stages([80, 64, 48]), stages([80, 80, 80]));
    let losses = closing(input, None, &lossy);
    assert!(losses.close(input, None, &lossy));
    let (no_eligibility, no_placement) =
        (SelectionLosses { eligibility: None, ..losses }, SelectionLosses { placement: None, ..losses });
    assert!(!no_eligibility.close(input, None, &lossy));
    assert!(!no_placement.close(input, None, &lossy));
    let none = SelectionLosses { eligibility: None, placement: None, ..losses };
    assert!(none.close(input, None, &lossless));
    assert!(!no_eligibility.close(input, None, &lossless) && !no_placement.close(input, None, &lossless));
}
