use proptest::prelude::*;

use super::*;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A connected rank with an exact stream, of an engine that holds ten blocks.
fn exact() -> RankTrust {
    let mut trust = RankTrust::reported(Some(Blocks::new(10)), at(0));
    trust.stream(SourceStatus::EXACT, at(0));
    trust
}

fn lose(trust: &mut RankTrust, reason: SourceReason, now: u64) {
    trust.cleared();
    trust.stream(SourceStatus::degraded(reason), at(now));
}

fn contradict(trust: &mut RankTrust, dispatched: u64) {
    trust.delivered(at(dispatched), Blocks::new(5), Tokens::new(1));
}

fn confirm(trust: &mut RankTrust, dispatched: u64) {
    trust.delivered(at(dispatched), Blocks::new(2), Tokens::ZERO);
}

#[test]
fn a_new_rank_is_degraded_until_its_stream_says_otherwise() {
    let mut trust = RankTrust::reported(None, at(3));
    assert_eq!(trust.status(at(3)), SourceStatus::degraded(SourceReason::NotConnected));
    trust.stream(SourceStatus::EXACT, at(4));
    assert_eq!(trust.status(at(4)), SourceStatus::EXACT);
}

#[test]
fn an_idle_engine_is_never_blind() {
    let mut trust = exact();
    trust.heard(at(1));
    assert_eq!(trust.status(at(1_000_000)), SourceStatus::EXACT);
}

#[test]
fn an_engine_that_should_have_published_and_did_not_is_blind_within_20_seconds() {
    let mut trust = exact();
    trust.heard(at(99));
    trust.must_have_stored(at(100), at(110));
    assert_eq!(trust.status(at(124)), SourceStatus::EXACT);
    for time in [125, 130, 1000] {
        assert_eq!(trust.status(at(time)), SourceStatus::blind(SourceReason::Silent));
    }
}

#[test]
fn an_engine_that_never_gave_a_polled_event_is_blind_by_that_name_with_what_helps() {
    let mut trust = RankTrust::reported(None, at(0));
    trust.stream(SourceStatus::degraded(SourceReason::NothingPolled), at(1));
    assert_eq!(trust.status(at(1_000_000)), SourceStatus::degraded(SourceReason::NothingPolled));
    trust.must_have_stored(at(100), at(110));
    assert_eq!(trust.status(at(125)), SourceStatus::blind(SourceReason::NothingPolled));
    let text = SourceReason::NothingPolled.to_string();
    assert!(text.contains("event_buffer_max_size") && text.contains("kv_events to \"none\""), "{text}");
}

#[test]
fn an_event_during_the_request_or_after_it_is_no_silence() {
    for heard in [100, 105, 110, 124] {
        let mut trust = exact();
        if heard <= 110 {
            trust.heard(at(heard));
        }
        trust.must_have_stored(at(100), at(110));
        if heard > 110 {
            trust.heard(at(heard));
        }
        assert_eq!(trust.status(at(1000)), SourceStatus::EXACT, "heard at {heard}");
    }
}

#[test]
fn any_event_ends_blindness_and_later_requests_do_not_prolong_the_wait() {
    let mut trust = exact();
    for second in 0..15 {
        trust.must_have_stored(at(100 + second), at(110 + second));
    }
    assert_eq!(trust.status(at(125)), SourceStatus::blind(SourceReason::Silent));
    trust.heard(at(126));
    assert_eq!(trust.status(at(126)), SourceStatus::EXACT);
}

#[test]
fn live_events_that_wait_behind_an_open_gap_are_no_silence() {
    for reason in [SourceReason::CatchingUp, SourceReason::Unidentified] {
        let mut trust = exact();
        trust.stream(SourceStatus::degraded(reason), at(90));
        assert!(trust.has_open_gap());
        trust.must_have_stored(at(100), at(110));
        assert_eq!(trust.status(at(130)), SourceStatus::degraded(reason));
        trust.stream(SourceStatus::EXACT, at(131));
        assert!(!trust.has_open_gap());
        assert_eq!(trust.status(at(131)), SourceStatus::blind(SourceReason::Silent));
    }
}

#[test]
fn three_contradictions_in_a_row_are_suspect_and_one_confirmation_ends_it() {
    let mut trust = exact();
    for _ in 0..2 {
        contradict(&mut trust, 1);
        contradict(&mut trust, 1);
        assert_eq!(trust.status(at(9)), SourceStatus::EXACT);
        confirm(&mut trust, 1);
    }
    for _ in 0..3 {
        contradict(&mut trust, 1);
    }
    assert_eq!(trust.status(at(9)), SourceStatus::SUSPECT);
    confirm(&mut trust, 1);
    assert_eq!(trust.status(at(9)), SourceStatus::EXACT);
}

#[test]
fn a_prediction_of_one_block_says_nothing() {
    let mut trust = exact();
    contradict(&mut trust, 1);
    contradict(&mut trust, 1);
    for lost in [0, 16] {
        trust.delivered(at(1), Blocks::new(1), Tokens::new(lost));
    }
    assert_eq!(trust.status(at(9)), SourceStatus::EXACT);
    contradict(&mut trust, 1);
    assert_eq!(trust.status(at(9)), SourceStatus::SUSPECT);
    trust.delivered(at(1), Blocks::new(1), Tokens::ZERO);
    assert_eq!(trust.status(at(9)), SourceStatus::SUSPECT);
}

#[test]
fn a_clear_ends_suspicion_and_late_reports_about_the_time_before_do_not_bring_it_back() {
    let mut trust = exact();
    for _ in 0..3 {
        contradict(&mut trust, 5);
    }
    trust.cleared();
    trust.heard(at(20));
    assert_eq!(trust.status(at(20)), SourceStatus::EXACT);
    for _ in 0..5 {
        contradict(&mut trust, 19);
    }
    assert_eq!(trust.status(at(21)), SourceStatus::EXACT);
    for _ in 0..3 {
        contradict(&mut trust, 21);
    }
    assert_eq!(trust.status(at(22)), SourceStatus::SUSPECT);
}

#[test]
fn after_a_loss_a_whole_capacity_of_new_blocks_makes_it_exact_again() {
    let losses = [
        SourceReason::JoinedLate,
        SourceReason::EventsLost,
        SourceReason::ReplayTooShort,
        SourceReason::ReplayFailed,
        SourceReason::Flooded,
        SourceReason::EventsTaken,
    ];
    for reason in losses {
        let mut trust = exact();
        trust.applied(Blocks::new(50));
        lose(&mut trust, reason, 1);
        trust.applied(Blocks::new(9));
        assert_eq!(trust.status(at(2)), SourceStatus::degraded(reason));
        trust.applied(Blocks::new(1));
        assert_eq!(trust.status(at(2)), SourceStatus::EXACT);
        lose(&mut trust, reason, 3);
        assert_eq!(trust.status(at(3)), SourceStatus::degraded(reason), "a second loss counts from its own");
    }
}

#[test]
fn new_blocks_do_not_outweigh_what_is_no_loss() {
    let doubts = [
        SourceReason::CatchingUp,
        SourceReason::NotConnected,
        SourceReason::NothingReceived,
        SourceReason::Unanswered,
        SourceReason::Unidentified,
        SourceReason::Restored,
    ];
    for reason in doubts {
        let mut trust = exact();
        trust.applied(Blocks::new(1000));
        trust.stream(SourceStatus::degraded(reason), at(1));
        assert_eq!(trust.status(at(2)), SourceStatus::degraded(reason));
    }
}

#[test]
fn without_a_known_capacity_only_the_stream_can_say_that_it_is_exact() {
    for capacity in [None, Some(Blocks::ZERO)] {
        let mut trust = RankTrust::reported(capacity, at(0));
        lose(&mut trust, SourceReason::EventsLost, 1);
        trust.applied(Blocks::new(1 << 40));
        assert_eq!(trust.status(at(2)), SourceStatus::degraded(SourceReason::EventsLost));
    }
}

#[test]
fn the_state_that_asks_for_the_most_care_wins() {
    let mut trust = exact();
    lose(&mut trust, SourceReason::EventsLost, 1);
    for _ in 0..3 {
        contradict(&mut trust, 2);
    }
    assert_eq!(trust.status(at(3)), SourceStatus::SUSPECT);
    trust.must_have_stored(at(3), at(4));
    assert_eq!(trust.status(at(19)), SourceStatus::blind(SourceReason::Silent));
    trust.stream(SourceStatus::blind(SourceReason::NotConnected), at(20));
    assert_eq!(trust.status(at(20)), SourceStatus::blind(SourceReason::NotConnected));
}

#[test]
fn nothing_changes_a_remembered_rank() {
    let mut trust = RankTrust::remembered();
    trust.stream(SourceStatus::blind(SourceReason::NotConnected), at(1));
    trust.must_have_stored(at(1), at(2));
    for _ in 0..3 {
        contradict(&mut trust, 1);
    }
    assert_eq!(trust.status(at(100)), SourceStatus::REMEMBERED);
    assert_eq!(SourceStatus::REMEMBERED.state, SourceState::Remembered);
}

#[derive(Clone, Copy, Debug)]
enum Input {
    Stream(SourceStatus),
    Heard,
    Applied(u64),
    Cleared,
    MustHaveStored { ran: u64 },
    Delivered { ago: u64, predicted: u64, lost: u64 },
}

/// The rules once more, over the whole history.
fn restated(history: &[(u64, Input)], capacity: u64, now: u64) -> SourceStatus {
    let stream = history.iter().rev().find_map(|(_, input)| match input {
        Input::Stream(status) => Some(*status),
        _ => None,
    });
    let stream = stream.unwrap_or(SourceStatus::degraded(SourceReason::NotConnected));
    if stream.state == SourceState::Blind {
        return stream;
    }
    let heard_since =
        |time: u64| history.iter().any(|(heard, input)| matches!(input, Input::Heard) && *heard >= time);
    let is_silent = history.iter().any(|(finished, input)| match input {
        Input::MustHaveStored { ran } => !heard_since(finished.saturating_sub(*ran)) && now >= finished + 15,
        _ => false,
    });
    if is_silent && stream.reason != Some(SourceReason::CatchingUp) {
        return SourceStatus::blind(SourceReason::Silent);
    }
    let clear = history.iter().rposition(|(_, input)| matches!(input, Input::Cleared));
    let names_time =
        |input: &Input| !matches!(input, Input::Applied(_) | Input::Cleared | Input::Delivered { .. });
    // A clear is over by the time of the next input that names one, as far as that has come.
    let cleared_at = |report: usize| {
        clear.map(|clear| {
            let next = history[clear..].iter().position(|(_, input)| names_time(input));
            let until = next.map_or(report, |next| report.min(clear + next + 1));
            let times = history[..until].iter().filter(|(_, input)| names_time(input)).map(|(time, _)| *time);
            times.max().unwrap_or(0)
        })
    };
    let first = clear.map_or(0, |position| position + 1);
    let since_clear = &history[first..];
    let telling = since_clear.iter().enumerate().filter_map(|(position, (time, input))| match input {
        Input::Delivered { ago, predicted: 2.., lost }
            if cleared_at(first + position).is_none_or(|cleared| time.saturating_sub(*ago) > cleared) =>
        {
            Some(*lost > 0)
        }
        _ => None,
    });
    let last_three: Vec<bool> = telling.collect::<Vec<_>>().into_iter().rev().take(3).collect();
    if last_three == [true; 3] {
        return SourceStatus::SUSPECT;
    }
    let stored: u64 = since_clear
        .iter()
        .map(|(_, input)| if let Input::Applied(blocks) = input { *blocks } else { 0 })
        .sum();
    let has_lost = stream.reason == Some(SourceReason::EventsLost);
    if has_lost && stored >= capacity { SourceStatus::EXACT } else { stream }
}

fn input() -> impl Strategy<Value = Input> {
    let status = prop_oneof![
        4 => Just(SourceStatus::EXACT),
        4 => Just(SourceStatus::degraded(SourceReason::EventsLost)),
        1 => Just(SourceStatus::degraded(SourceReason::CatchingUp)),
        1 => Just(SourceStatus::degraded(SourceReason::Unanswered)),
        1 => Just(SourceStatus::blind(SourceReason::NotConnected)),
    ];
    prop_oneof![
        2 => status.prop_map(Input::Stream),
        2 => Just(Input::Heard),
        2 => (0..8_u64).prop_map(Input::Applied),
        1 => Just(Input::Cleared),
        2 => (0..20_u64).prop_map(|ran| Input::MustHaveStored { ran }),
        6 => (0..20_u64, 1..4_u64, prop_oneof![1 => Just(0_u64), 3 => 1..40_u64])
            .prop_map(|(ago, predicted, lost)| Input::Delivered { ago, predicted, lost }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_history_gives_the_state_that_the_rules_say(
        inputs in prop::collection::vec((0..6_u64, input()), 0..60),
        waits in 0..30_u64,
    ) {
        let mut trust = RankTrust::reported(Some(Blocks::new(20)), at(0));
        let mut history = Vec::new();
        let mut now = 0;
        for (pause, input) in inputs {
            now += pause;
            match input {
                Input::Stream(status) => trust.stream(status, at(now)),
                Input::Heard => trust.heard(at(now)),
                Input::Applied(blocks) => trust.applied(Blocks::new(blocks)),
                Input::Cleared => trust.cleared(),
                Input::MustHaveStored { ran } => trust.must_have_stored(at(now.saturating_sub(ran)), at(now)),
                Input::Delivered { ago, predicted, lost } => {
                    trust.delivered(at(now.saturating_sub(ago)), Blocks::new(predicted), Tokens::new(lost));
                }
            }
            history.push((now, input));
            for later in [0, 1, waits] {
                let expected = restated(&history, 20, now + later);
                prop_assert_eq!(trust.status(at(now + later)), expected, "{} s after {:?}", later, &history);
            }
        }
    }
}
