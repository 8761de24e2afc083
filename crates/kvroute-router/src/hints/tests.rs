use kvroute_core::WorkerId;
use proptest::prelude::*;

use super::*;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn trusted(pairs: &[(&str, &str)]) -> Result<Hints, RouteError> {
    Hints::read(&headers(pairs), true)
}

fn untrusted(pairs: &[(&str, &str)]) -> Result<Hints, RouteError> {
    Hints::read(&headers(pairs), false)
}

/// The message for a trusted caller; its status is 400 and it names the header as the field at fault.
fn refusal(name: &str, value: &str) -> String {
    let error = trusted(&[(name, value)]).unwrap_err();
    assert_eq!(error.status(), 400);
    assert_eq!(error.body().param.as_deref(), Some(name));
    assert_eq!(error.body().code.as_deref(), Some("invalid_header"));
    error.to_string()
}

fn rank(worker: &str, dp_rank: u32) -> WorkerRank {
    WorkerRank::new(WorkerId::new(worker), DpRank::new(dp_rank))
}

fn pin(text: &str) -> Pin {
    trusted(&[("x-kvroute-worker", text)]).unwrap().pin.unwrap()
}

#[test]
fn a_request_without_headers_asks_for_nothing() {
    assert_eq!(untrusted(&[("x-request-id", "a"), ("accept", "*/*")]).unwrap(), Hints::default());
    assert_eq!(trusted(&[]).unwrap(), Hints::default());
}

#[test]
fn a_session_is_the_same_for_any_caller_and_keeps_no_name() {
    let session = |name: &str| untrusted(&[("x-session-id", name)]).unwrap().session;
    assert_eq!(session("alice"), trusted(&[("X-Session-Id", "alice")]).unwrap().session);
    assert!(session("alice").is_some());
    assert_ne!(session("alice"), session("bob"));
    assert_eq!(session("größe"), session("größe"), "any bytes name a session");
    assert_eq!(session(""), None);
}

#[test]
fn a_session_of_other_programs_was_refused_for_its_length_or_number() {
    let sessions = |values: &[&str]| {
        let headers: Vec<_> = values.iter().map(|value| ("x-session-id", *value)).collect();
        untrusted(&headers).unwrap().session
    };
    let long = "s".repeat(10 * LONGEST);
    assert!(sessions(&[&long]).is_some());
    assert_ne!(sessions(&[&long]), sessions(&[&long[1..]]), "all of it counts");
    assert_eq!(sessions(&["alice", "bob"]), sessions(&["alice"]), "of several the first");
    assert_eq!(sessions(&["", "bob"]), sessions(&["bob"]), "an empty one is none");
    assert_eq!(sessions(&["", ""]), None);
}

#[test]
fn a_priority_is_a_whole_number_in_range_from_any_caller() {
    let priority = |text: &str| untrusted(&[("x-kvroute-priority", text)]).map(|hints| hints.priority);
    for (text, expected) in [("0", 0), ("100", 100), ("-100", -100), (" 7 ", 7)] {
        assert_eq!(priority(text).unwrap(), expected, "{text:?}");
    }
    for text in ["101", "-101", "1.5", "high", "", "99999999999999999999"] {
        let message = priority(text).unwrap_err().to_string();
        let remedy = format!(
            "x-kvroute-priority: {:?} is no priority; send a whole number from -100 to 100",
            text.trim()
        );
        assert!(message.starts_with(&remedy), "{message}");
    }
}

#[test]
fn a_pin_is_a_worker_or_one_of_its_ranks() {
    let whole = pin("10.0.0.1:8000");
    assert!(whole.names(&rank("10.0.0.1:8000", 0)) && whole.names(&rank("10.0.0.1:8000", 3)));
    assert!(!whole.names(&rank("10.0.0.2:8000", 0)) && !whole.names(&rank("10.0.0.1:80001", 0)));
    let one = pin("10.0.0.1:8000/3");
    assert!(one.names(&rank("10.0.0.1:8000", 3)) && !one.names(&rank("10.0.0.1:8000", 0)));
    assert!(!one.names(&rank("10.0.0.2:8000", 3)));
    assert_eq!(one.to_string(), "10.0.0.1:8000/3");
    assert_eq!(pin(&rank("[::1]:80", 7).to_string()).to_string(), "[::1]:80/7");
}

#[test]
fn a_pin_finds_workers_whose_names_have_slashes() {
    let behind_a_gateway = pin("gate:80/engines/4");
    assert!(behind_a_gateway.names(&rank("gate:80/engines/4", 0)));
    assert!(behind_a_gateway.names(&rank("gate:80/engines", 4)));
    assert!(!behind_a_gateway.names(&rank("gate:80/engines/40", 0)));
    assert!(!behind_a_gateway.names(&rank("gate:80/engines", 0)));
    assert!(pin("gate:80/engines/4/1").names(&rank("gate:80/engines/4", 1)));
    assert!(pin("gate:80/blue").names(&rank("gate:80/blue", 2)));
    let not_a_rank = pin("gate:80/99999999999");
    assert_eq!((not_a_rank.worker.as_str(), not_a_rank.dp_rank), ("gate:80/99999999999", None));
}

#[test]
fn a_pin_may_name_a_rank_of_a_worker_that_has_not_told_how_many_it_has() {
    let worker = |url: &str, dp_ranks| WorkerConfig { dp_ranks, ..WorkerConfig::at(url) };
    let (open, of_two) = (worker("http://a:80", None), worker("http://a:80", Some(2)));
    for (text, by_open, by_two) in [
        ("a:80", true, true),
        ("a:80/0", true, true),
        ("a:80/1", true, true),
        ("a:80/7", true, false),
        ("b:80", false, false),
    ] {
        assert_eq!((pin(text).may_name(&open), pin(text).may_name(&of_two)), (by_open, by_two), "{text}");
    }
    assert!(pin("a:80/engines/4").may_name(&worker("http://a:80/engines/4", Some(1))));
    assert!(!pin("a:80/engines/4").may_name(&worker("http://a:80/engines", Some(4))));
}

#[test]
fn a_pin_that_names_nobody_is_refused() {
    for text in ["", "/0", " "] {
        let message = refusal("x-kvroute-worker", text);
        assert!(message.contains("names no worker; send a worker's name, host:port"), "{message}");
    }
}

#[test]
fn overrides_replace_the_weights_they_name_and_no_others() {
    let hints = trusted(&[("x-kvroute-override", "temperature=0.5, device_weight = 1e2")]).unwrap();
    let pools = CostWeights { host: 0.1, temperature: 7.0, ..CostWeights::default() };
    let expected = CostWeights { temperature: 0.5, device: 100.0, ..pools };
    assert_eq!(hints.overrides.apply(pools), expected);
    assert_eq!(Overrides::default().apply(pools), pools);
}

#[test]
fn every_weight_can_be_overridden_by_its_own_name() {
    let mut expected = CostWeights::default();
    let text: Vec<String> = (3_u8..)
        .zip(expected.by_name())
        .map(|(number, (name, weight))| {
            *weight = f64::from(number);
            format!("{name}={number}")
        })
        .collect();
    let hints = trusted(&[("x-kvroute-override", &text.join(","))]).unwrap();
    assert_eq!(hints.overrides.apply(CostWeights::default()), expected);
}

#[test]
fn a_bad_override_is_refused_with_its_part_and_the_remedy() {
    let message = |value: &str| refusal("x-kvroute-override", value);
    let misspelt = message("temprature=1");
    assert!(
        misspelt.starts_with(
            "x-kvroute-override: \"temprature\" is no weight; did you mean temperature? known are prefill_scale, "
        ),
        "{misspelt}"
    );
    let strange = message("temperature=1,zzz=1");
    assert!(strange.contains("\"zzz\" is no weight; known are") && !strange.contains("did you"), "{strange}");
    for (value, named) in [
        ("temperature", "\"temperature\" has no '='; send NAME=NUMBER with commas between them"),
        ("", "\"\" has no '='"),
        ("temperature=1,", "\"\" has no '='"),
        ("temperature=warm", "temperature is \"warm\"; send a number from 0 to 1000000"),
        ("temperature=", "temperature is \"\"; send a number"),
        ("temperature=-0.1", "temperature is \"-0.1\"; send a number"),
        ("temperature=nan", "temperature is \"nan\"; send a number"),
        ("temperature=inf", "temperature is \"inf\"; send a number"),
        ("temperature=1000001", "temperature is \"1000001\"; send a number"),
        ("temperature=1,temperature=1", "temperature is given twice; give it once"),
    ] {
        let message = message(value);
        assert!(message.contains(named), "{value:?}: {message}");
    }
}

#[test]
fn an_unknown_header_of_this_program_is_refused_with_the_nearest() {
    assert_eq!(
        refusal("x-kvroute-overide", "temperature=1"),
        "x-kvroute-overide: no such header is understood; did you mean x-kvroute-override? \
         known are x-kvroute-priority, x-kvroute-worker, x-kvroute-override"
    );
}

#[test]
fn a_header_stands_once_and_is_not_endless() {
    for name in ["x-kvroute-priority", "x-kvroute-worker", "x-kvroute-override"] {
        let twice = trusted(&[(name, "1"), (name, "1")]).unwrap_err().to_string();
        assert_eq!(twice, format!("{name}: the header stands more than once; send it once"));
        let long = "1".repeat(LONGEST + 1);
        assert_eq!(refusal(name, &long), format!("{name}: the value has 513 bytes; send at most 512"));
    }
}

#[test]
fn text_that_is_no_text_is_refused() {
    for name in ["x-kvroute-priority", "x-kvroute-worker", "x-kvroute-override"] {
        assert_eq!(refusal(name, "ä"), format!("{name}: the value is not plain ASCII text"));
    }
}

#[test]
fn from_untrusted_callers_pins_and_overrides_count_as_not_sent() {
    let asked = [("x-kvroute-worker", "a:1"), ("x-kvroute-override", "temperature=9"), ("x-kvroute-no", "")];
    assert_eq!(untrusted(&asked).unwrap(), Hints::default());
    let broken = [("x-kvroute-worker", ""), ("x-kvroute-override", "?"), ("x-kvroute-override", "?")];
    assert_eq!(untrusted(&broken).unwrap(), Hints::default(), "what is not read cannot be wrong");
}

proptest! {
    #[test]
    fn no_bytes_panic_and_every_refusal_is_the_clients(
        values in prop::collection::vec(("[a-z-]{0,8}", 0..6_usize, prop::collection::vec(any::<u8>(), 0..40)), 0..6),
        is_trusted: bool,
    ) {
        let mut headers = HeaderMap::new();
        for (end, which, bytes) in &values {
            let names = [SESSION, PRIORITY, WORKER, OVERRIDE];
            let name = names.get(*which).cloned();
            let name = name.or_else(|| HeaderName::from_bytes(format!("{OWN_PREFIX}{end}").as_bytes()).ok());
            if let (Some(name), Ok(value)) = (name, HeaderValue::from_bytes(bytes)) {
                headers.append(name, value);
            }
        }
        match Hints::read(&headers, is_trusted) {
            Ok(hints) => {
                prop_assert!((-100..=100).contains(&hints.priority));
                prop_assert!(hints.overrides.apply(CostWeights::default()).validate().is_ok());
                prop_assert!(is_trusted || (hints.pin.is_none() && hints.overrides == Overrides::default()));
            }
            Err(error) => {
                prop_assert_eq!(error.status(), 400);
                prop_assert_eq!(error.origin(), &crate::error::Origin::Client);
            }
        }
    }

    #[test]
    fn overrides_read_back_what_was_written(
        written in prop::collection::btree_map(0..8_usize, 0.0..=CostWeights::MAX, 0..8),
        spaces in " {0,2}",
    ) {
        let mut expected = CostWeights::default();
        let mut parts = Vec::new();
        for (index, (name, weight)) in expected.by_name().into_iter().enumerate() {
            if let Some(value) = written.get(&index) {
                *weight = *value;
                parts.push(format!("{spaces}{name}{spaces}={spaces}{value}{spaces}"));
            }
        }
        prop_assume!(!parts.is_empty());
        parts.reverse();
        let text = parts.join(",");
        prop_assume!(text.len() <= LONGEST);
        let hints = trusted(&[("x-kvroute-override", &text)]).unwrap();
        prop_assert_eq!(hints.overrides.apply(CostWeights::default()), expected);
    }

    #[test]
    fn any_rank_is_named_by_what_it_is_displayed_as(
        worker in "[a-z0-9.:]{1,9}(/[a-z0-9]{1,3}){0,2}",
        dp_rank: u32,
        other: u32,
    ) {
        let rank = rank(&worker, dp_rank);
        prop_assert!(pin(&rank.to_string()).names(&rank));
        prop_assert!(pin(&worker).names(&rank) || worker.rsplit('/').next().and_then(digits).is_some());
        let another = WorkerRank::new(WorkerId::new(worker.as_str()), DpRank::new(other));
        prop_assert_eq!(pin(&rank.to_string()).names(&another), other == dp_rank);
    }
}
