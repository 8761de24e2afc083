//! The headers by which a client's trace goes on, and what a worker is told of it.
//!
//! A line of the input is a header: `p` before a `traceparent`, `s` before a `tracestate`.

#![no_main]

use http::{HeaderMap, HeaderValue};
use kvroute_router::{TraceContext, TraceParent};
use libfuzzer_sys::fuzz_target;

/// Characters of a `tracestate` that every implementation takes.
const LONGEST_STATE: usize = 512;

fuzz_target!(|input: &[u8]| {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n') {
        let (name, value) = match line {
            [b'p', value @ ..] => ("traceparent", value),
            [b's', value @ ..] => ("tracestate", value),
            _ => continue,
        };
        let Ok(value) = HeaderValue::from_bytes(value) else { continue };
        if headers.try_append(name, value).is_err() {
            return;
        }
    }
    let read = TraceContext::of(&headers, 0.0);
    let sent = told(&read, &headers);
    let [parent] = values(&sent, "traceparent")[..] else { panic!("not one parent: {sent:?}") };
    let written = TraceParent::parse(parent).expect("a worker is told what can be read");
    assert_eq!((written.trace, written.span, written.is_sampled), (read.trace, read.span, read.is_sampled));

    // Only one header that can be read makes the trace the client's.
    let given: Vec<_> = values(&headers, "traceparent");
    let of_client = match given[..] {
        [only] => TraceParent::parse(only.trim_ascii()),
        _ => None,
    };
    assert_eq!(
        of_client.map(|parent| (parent.trace, parent.span)),
        read.parent.map(|span| (read.trace, span))
    );

    match values(&sent, "tracestate")[..] {
        [] => {}
        [state] => {
            assert!(read.parent.is_some() && (1..=LONGEST_STATE).contains(&state.len()));
            let again = told(&read, &sent);
            assert_eq!(values(&again, "tracestate"), [state], "what is right stays as it is");
        }
        _ => panic!("more than one state: {sent:?}"),
    }
});

fn told(context: &TraceContext, headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    context.propagate(context.span, &mut headers);
    headers
}

fn values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a [u8]> {
    headers.get_all(name).iter().map(HeaderValue::as_bytes).collect()
}
