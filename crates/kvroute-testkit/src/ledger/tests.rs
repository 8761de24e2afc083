use super::*;

/// Books that close, with an amount in every family: two phases with an index view, one of which the loss ledger leaves
/// out, a model without a view, and one of which a history was asked about every attempt; of the first only about some.
const BOOKS: &str = include_str!("tests/books.prom");

fn faults(text: &str) -> Vec<String> {
    Ledger::of(&Exposition::parse(text)).faults()
}

/// The books with one line changed.
fn with(line: &str, changed: &str) -> String {
    assert!(BOOKS.lines().any(|known| known == line), "{line:?} is not in the books");
    BOOKS.lines().map(|known| if known == line { changed } else { known }).collect::<Vec<_>>().join("\n")
}

fn value_of(line: &str) -> (&str, u64) {
    let (key, value) = line.rsplit_once(' ').unwrap();
    (key, value.parse::<f64>().unwrap() as u64)
}

#[test]
fn books_that_close_have_no_faults() {
    assert_eq!(faults(BOOKS), [""; 0]);
    Ledger::of(&Exposition::parse(BOOKS)).assert_closes();
}

/// Families that have a bound and no equation, each with a label by which to know the series that are meant.
const BOUNDED_ONLY: [(&str, &str); 16] = [
    ("dynamo_component_router_requests_total", ""),
    ("dynamo_component_router_input_sequence_tokens_sum", ""),
    ("dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total", "decode"),
    ("dynamo_component_router_kv_selected_cached_prefix_tokens_total", "decode"),
    ("kvroute_router_reuse_expected_input_tokens_total", ""),
    ("kvroute_router_repeated_input_tokens_total", ""),
    ("dynamo_component_router_cache_loss_history_", ""),
    ("dynamo_component_router_cache_loss_observations_total", ""),
    ("kvroute_router_lost_prefill_seconds_total", "unseen"),
    ("kvroute_requests_total", "failed"),
    ("kvroute_requests_total", "cancelled"),
    ("kvroute_requests_total", "rejected"),
    ("kvroute_router_lost_prefill_seconds_total", "evicted"),
    ("kvroute_router_lost_prefill_seconds_total", "load"),
    ("kvroute_shadow_selected_cached_tokens_total", ""),
    ("kvroute_shadow_compared_input_tokens_total", ""),
];

fn is_bounded_only(key: &str) -> bool {
    BOUNDED_ONLY.iter().any(|(name, label)| key.starts_with(name) && key.contains(label))
}

/// A token too many or an attempt too few is noticed everywhere else: no family is left out of the equations.
#[test]
fn every_counter_that_is_off_by_one_is_noticed() {
    for line in BOOKS.lines() {
        let (key, value) = value_of(line);
        let is_noticed = |value: u64| !faults(&with(line, &format!("{key} {value}"))).is_empty();
        let are_noticed = is_noticed(value + 1) && (value == 0 || is_noticed(value - 1));
        assert_eq!(are_noticed, !is_bounded_only(key), "{key}");
    }
}

#[test]
fn a_series_that_is_missing_is_noticed() {
    for line in BOOKS.lines() {
        let (key, value) = value_of(line);
        let rest: Vec<_> = BOOKS.lines().filter(|known| *known != line).collect();
        let may_be_absent = value == 0 || is_bounded_only(key);
        assert!(may_be_absent || !faults(&rest.join("\n")).is_empty(), "{key}");
    }
}

#[test]
fn a_fault_names_the_equation_and_both_sides() {
    let line = r#"kvroute_router_reuse_lost_tokens_total{phase="aggregated",model="m",stage="placement",reason="load"} 16"#;
    let found = faults(&with(line, &line.replace("} 16", "} 17")));
    assert_eq!(found, ["aggregated m: F2 = F3 + placement is off by 1: 96 against 80 + 17"]);
}

#[test]
fn what_is_absent_without_an_index_view_must_not_be_zero() {
    let zero = "kvroute_router_best_cached_prefix_tokens_total{phase=\"aggregated\",model=\"blind\"} 0";
    let found = faults(&format!("{BOOKS}{zero}\n"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("aggregated blind: kvroute_router_best_cached_prefix_tokens_total exists"));
}

#[test]
fn a_history_that_is_told_of_in_part_is_noticed() {
    let faults_without = |words: &[&str]| {
        let rest = BOOKS.lines().filter(|line| !words.iter().all(|word| line.contains(word)));
        faults(&rest.collect::<Vec<_>>().join("\n"))
    };
    let of_the_ledger = [
        "stage=\"new\"",
        "lost_tokens_total{phase=\"aggregated\",model=\"h\",stage=\"residency\"",
        "surplus_tokens_total{phase=\"aggregated\",model=\"h\",stage=\"residency\"",
    ];
    for stage in of_the_ledger {
        let found = faults_without(&["model=\"h\"", stage]);
        assert!(
            found.iter().any(|fault| fault.contains(" without kvroute_router_history")),
            "{stage}: {found:?}"
        );
    }
    let of_all = [
        "unique_hashes",
        "represented_tokens",
        "estimated_bytes",
        "capacity_blocks",
        "capacity_bytes",
        "observations_total",
        "observation_input",
        "history_sharing",
    ];
    for name in of_all {
        let found = faults_without(&[name]);
        assert!(
            found.iter().any(|fault| fault.contains(" without dynamo_component_router_kv_history")),
            "{name}: {found:?}"
        );
    }
}

/// What was computed before and counts as lost again must not have counted as new.
#[test]
fn everything_that_came_in_was_new_or_known() {
    let moved = [
        (r#"model="h",stage="new",reason="unseen"} 164"#, r#"model="h",stage="new",reason="unseen"} 160"#),
        (
            r#"model="h",stage="residency",reason="evicted"} 48"#,
            r#"model="h",stage="residency",reason="evicted"} 52"#,
        ),
        ("observation_input_tokens_total 760", "observation_input_tokens_total 756"),
    ];
    let books = moved.iter().fold(BOOKS.to_owned(), |books, (before, after)| {
        assert!(books.contains(before), "{before}");
        books.replace(before, after)
    });
    assert_eq!(faults(&books), ["aggregated h: L = new + F1 is off by 4: 400 against 168 + 228"]);
}

#[test]
fn an_attempt_that_a_history_was_asked_about_is_not_unavailable() {
    let line = r#"kvroute_router_reuse_lost_tokens_total{phase="aggregated",model="h",stage="new",reason="unseen"} 164"#;
    let misplaced = line.replace("\"new\"", "\"unavailable\"").replace("unseen", "not_cached");
    let found = faults(&with(line, &misplaced));
    assert!(found.iter().any(|fault| fault.starts_with("history: observed input")), "{found:?}");
}

#[test]
fn a_worker_that_left_takes_its_series_along_and_only_then_they_may_be_gone() {
    let of_workers = |line: &&str| !line.starts_with("kvroute_reuse_worker_");
    let text = BOOKS.lines().filter(of_workers).collect::<Vec<_>>().join("\n");
    let scrape = Exposition::parse(&text);
    assert_eq!(Ledger::after_departures(&scrape).faults(), [""; 0]);
    assert_eq!(Ledger::of(&scrape).faults().len(), 2);
}

#[test]
#[should_panic(expected = "the books do not close")]
fn books_that_do_not_close_fail_the_test() {
    Ledger::of(&Exposition::parse("kvroute_attempts_total{phase=\"aggregated\",model=\"m\"} 1\n"))
        .assert_closes();
}
