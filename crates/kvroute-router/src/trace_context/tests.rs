use proptest::prelude::*;

use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn given(parents: &[&str], states: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, values) in [(PARENT, parents), (STATE, states)] {
        for value in values {
            headers.append(&name, HeaderValue::from_str(value).unwrap());
        }
    }
    headers
}

/// What a worker would be told of a client's headers.
fn told(parents: &[&str], states: &[&str]) -> (Option<SpanId>, String, Option<String>) {
    let mut headers = given(parents, states);
    let context = TraceContext::of(&headers, 1.0);
    context.propagate(context.span, &mut headers);
    assert_eq!(headers.get_all(PARENT).iter().count(), 1);
    assert!(headers.get_all(STATE).iter().count() <= 1);
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap().to_owned());
    (context.parent, text(PARENT).unwrap(), text(STATE))
}

/// The state that a worker is told behind a valid parent.
fn state_told(states: &[&str]) -> Option<String> {
    told(&[&format!("00-{TRACE}-{SPAN}-01")], states).2
}

#[test]
fn a_trace_goes_on_with_its_id_and_its_flag_and_a_step_of_its_own() {
    for (flags, kept) in [("00", "00"), ("01", "01"), ("03", "01"), ("fe", "00"), ("ff", "01")] {
        let (parent, sent, _) = told(&[&format!("00-{TRACE}-{SPAN}-{flags}")], &[]);
        assert_eq!(parent.unwrap().to_string(), SPAN);
        let own = TraceParent::parse(sent.as_bytes()).unwrap();
        assert_eq!(sent, format!("00-{TRACE}-{}-{kept}", own.span), "{flags}");
        assert_ne!(own.span.to_string(), SPAN);
    }
}

#[test]
fn a_later_version_is_read_as_far_as_it_is_known() {
    for header in [
        format!("01-{TRACE}-{SPAN}-01"),
        format!("fe-{TRACE}-{SPAN}-01-"),
        format!("cc-{TRACE}-{SPAN}-01-what the future will be like"),
        format!("cc-{TRACE}-{SPAN}-01-01"),
    ] {
        let read = TraceParent::parse(header.as_bytes()).unwrap();
        assert_eq!(read.to_string(), format!("00-{TRACE}-{SPAN}-01"), "{header}");
    }
}

#[test]
fn what_the_standard_does_not_allow_begins_a_new_trace() {
    let zeros = |length| "0".repeat(length);
    let refused = [
        String::new(),
        "00".to_owned(),
        format!("00-{TRACE}-{SPAN}"),
        format!("00-{TRACE}-{SPAN}-"),
        format!("00-{TRACE}-{SPAN}-1"),
        format!("00-{TRACE}-{SPAN}-001"),
        format!("00-{TRACE}-{SPAN}-01-"),
        format!("00-{TRACE}-{SPAN}-01-00"),
        format!("00-{TRACE}-{SPAN}-01.00"),
        format!("01-{TRACE}-{SPAN}-01.00"),
        format!("01-{TRACE}-{SPAN}-01what"),
        format!("ff-{TRACE}-{SPAN}-01"),
        format!("0-{TRACE}-{SPAN}-01"),
        format!("+0-{TRACE}-{SPAN}-01"),
        format!("0A-{TRACE}-{SPAN}-01"),
        format!("00_{TRACE}-{SPAN}-01"),
        format!("00-{TRACE}_{SPAN}-01"),
        format!("00-{TRACE}-{SPAN}_01"),
        format!("00-{TRACE}-{SPAN}-+1"),
        format!("00-{}-{SPAN}-01", zeros(32)),
        format!("00-{TRACE}-{}-01", zeros(16)),
        format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
        format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
        format!("00-+{}-{SPAN}-01", &TRACE[1..]),
        format!("00-{}-{SPAN}0-01", &TRACE[1..]),
        format!("00-{}.-{SPAN}-01", &TRACE[1..]),
    ];
    for header in refused {
        let (parent, sent, state) = told(&[&header], &["vendor=1"]);
        assert_eq!((parent, state), (None, None), "{header}");
        assert!(!sent.contains(TRACE) && !sent.contains(SPAN), "{header}: {sent}");
        assert!(TraceParent::parse(sent.as_bytes()).is_some(), "{sent}");
    }
}

#[test]
fn two_headers_that_contradict_each_other_begin_a_new_trace() {
    let header = format!("00-{TRACE}-{SPAN}-01");
    assert_eq!(told(&[&header, &header.replace('4', "5")], &["vendor=1"]).0, None);
    assert_eq!(told(&[&header, &header], &["vendor=1"]).2, None);
}

#[test]
fn spaces_around_a_header_are_none_of_it() {
    assert!(told(&[&format!("\t 00-{TRACE}-{SPAN}-01 ")], &[]).0.is_some());
}

#[test]
fn new_traces_are_kept_as_often_as_is_asked_for_and_a_client_decides_for_its_own() {
    let is_sampled = |headers: &HeaderMap, sample| TraceContext::of(headers, sample).is_sampled;
    let new = HeaderMap::new();
    let kept = (0..2_000).filter(|_| is_sampled(&new, 0.5)).count();
    assert!((700..1_300).contains(&kept), "{kept} of 2000");
    for (sample, flags) in [(0.0, "01"), (1.0, "00")] {
        let own = given(&[&format!("00-{TRACE}-{SPAN}-{flags}")], &[]);
        assert_eq!(is_sampled(&own, sample), flags == "01");
        assert_eq!(is_sampled(&new, sample), sample > 0.5);
    }
}

#[test]
fn every_trace_and_every_step_has_another_name() {
    let of = || TraceContext::of(&HeaderMap::new(), 1.0);
    let (one, other) = (of(), of());
    assert_ne!(one.trace, other.trace);
    assert_ne!(one.span, other.span);
}

#[test]
fn states_of_several_headers_become_one() {
    assert_eq!(state_told(&["rojo=00f067aa0ba902b7"]).as_deref(), Some("rojo=00f067aa0ba902b7"));
    assert_eq!(state_told(&["a=1,b=2", "c=3"]).as_deref(), Some("a=1,b=2,c=3"));
    assert_eq!(state_told(&["a=1 , ,\tb=2,", ""]).as_deref(), Some("a=1,b=2"));
    assert_eq!(state_told(&["fw529a3039@dt=x y,0at@v=!"]).as_deref(), Some("fw529a3039@dt=x y,0at@v=!"));
}

#[test]
fn a_state_that_the_standard_does_not_allow_is_left_out_as_a_whole_and_the_trace_goes_on() {
    let (long_key, long_value) = ("k".repeat(257), "v".repeat(257));
    let as_many_as_may: Vec<_> = (0..32).map(|at| format!("k{at}=1")).collect();
    for state in [
        "",
        " , ",
        "a",
        "=1",
        "a=",
        "a=1=2",
        "A=1",
        "a b=1",
        "-a=1",
        "a=1,a=2",
        "a=1,b",
        "a=\t1\t2",
        &format!("{long_key}=1"),
        &format!("a={long_value}"),
        &as_many_as_may.join(","),
    ] {
        let (parent, _, left) = told(&[&format!("00-{TRACE}-{SPAN}-01")], &["ok=1", state]);
        let expected = if state.trim_matches([' ', ',']).is_empty() { Some("ok=1".to_owned()) } else { None };
        assert_eq!((parent.is_some(), left), (true, expected), "{state:?}");
    }
    assert_eq!(state_told(&[&as_many_as_may.join(",")]).map(|state| state.split(',').count()), Some(32));
}

#[test]
fn a_state_that_is_too_long_loses_long_members_first_and_then_the_last_ones() {
    let member = |name: &str, length: usize| format!("{name}={}", "v".repeat(length - name.len() - 1));
    let (long, longest) = (member("long", 129), member("longest", 260));
    let short: Vec<_> = (0..9).map(|at| member(&format!("s{at}"), 99)).collect();
    let exactly = [&short[..5], &[member("e", 12)]].concat().join(",");
    assert_eq!(exactly.len(), 512);
    assert_eq!(state_told(&[&exactly]), Some(exactly.clone()), "nothing has to go");
    let with_long = [&long, &short[0], &longest, &short[1]].map(String::as_str).join(",");
    assert_eq!(state_told(&[&with_long]), Some([&long, &short[0], &short[1]].map(String::as_str).join(",")));
    assert_eq!(state_told(&[&short.join(",")]), Some(short[..5].join(",")), "the last ones go");
    let only = format!("{}={}", "k".repeat(256), "v".repeat(256));
    assert_eq!(state_told(&[&only]), None, "513 characters in one member");
}

/// Most headers nearly right, so that each rule is met from both sides.
fn header() -> impl Strategy<Value = String> {
    let part = |length: usize| {
        proptest::string::string_regex(&format!("[0-9a-f]{{{length}}}|0{{{length}}}")).unwrap()
    };
    let right = || {
        (part(2), part(32), part(16), part(2), "(-.{0,4})?")
            .prop_map(|(version, trace, span, flags, rest)| format!("{version}-{trace}-{span}-{flags}{rest}"))
    };
    let broken =
        (right(), any::<prop::sample::Index>(), "[0-9a-fA-F+ -]{0,2}").prop_map(|(header, at, by)| {
            let mut characters: Vec<_> = header.chars().collect();
            let at = at.index(characters.len());
            characters.splice(at..=at, by.chars());
            characters.into_iter().collect()
        });
    prop_oneof![right(), broken, ".{0,60}"]
}

/// The standard's own grammar, said in another way.
fn is_allowed(header: &str) -> bool {
    let fields: Vec<_> = header.splitn(5, '-').collect();
    let [version, trace, span, flags, rest @ ..] = fields.as_slice() else { return false };
    let is_hex = |text: &str, length| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_named = |text: &str, length| is_hex(text, length) && text.bytes().any(|byte| byte != b'0');
    is_hex(version, 2)
        && *version != "ff"
        && (*version != "00" || rest.is_empty())
        && is_named(trace, 32)
        && is_named(span, 16)
        && is_hex(flags, 2)
}

proptest! {
    #[test]
    fn a_header_is_read_exactly_where_the_standard_allows_it(header in header()) {
        let read = TraceParent::parse(header.as_bytes());
        prop_assert_eq!(read.is_some(), is_allowed(&header));
        if let Some(read) = read {
            let written = read.to_string();
            prop_assert_eq!(&written[2..53], &header[2..53]);
            prop_assert_eq!(TraceParent::parse(written.as_bytes()), Some(read));
        }
    }

    #[test]
    fn whatever_a_client_sends_its_worker_gets_one_valid_header(
        parents in prop::collection::vec(header(), 0..3),
        states in prop::collection::vec(prop_oneof!["([a-z]{1,3}=[a-z]{1,200},){0,8}", "[!-~ ]{0,700}"], 0..3),
    ) {
        let is_value = |text: &&str| HeaderValue::from_str(text).is_ok();
        let parents: Vec<_> = parents.iter().map(String::as_str).filter(is_value).collect();
        let states: Vec<_> = states.iter().map(String::as_str).collect();
        let (parent, sent, state) = told(&parents, &states);
        prop_assert!(TraceParent::parse(sent.as_bytes()).is_some());
        prop_assert!(parent.is_some() || state.is_none());
        if let Some(state) = state {
            prop_assert!(state.len() <= 512);
            prop_assert_eq!(state_told(&[&state]), Some(state), "what is right stays as it is");
        }
    }
}
