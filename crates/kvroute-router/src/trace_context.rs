//! Where a request stands in a trace, as the `traceparent` header of W3C Trace Context (level 1) says it.
//!
//! Read by hand and not by OpenTelemetry's propagator: that one also takes ids that are too short, a sign before a number
//! and a dash too many behind them, and a trace is worth nothing whose parts are read differently on its way.

mod state;

use std::fmt::{self, Write as _};
use std::num::{NonZeroU64, NonZeroU128};

use http::header::{HeaderMap, HeaderName, HeaderValue};

const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");

/// Characters of a header of version 00, and the least of any later one.
const LENGTH: usize = 55;

/// What no version is named.
const NO_VERSION: u64 = 0xff;

/// The one flag that version 00 knows: whoever set it may have kept this trace.
const SAMPLED: u64 = 1;

/// Name of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(NonZeroU128);

/// Name of one step in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(NonZeroU64);

/// What a `traceparent` header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace: TraceId,
    /// The sender's step in it, which is the parent of whatever the receiver does.
    pub span: SpanId,
    /// Whether the trace is kept.
    pub is_sampled: bool,
}

/// A request's own place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace: the client's, or one that begins here.
    pub trace: TraceId,
    /// The request itself.
    pub span: SpanId,
    /// The client's step; `None` where the trace begins here.
    pub parent: Option<SpanId>,
    /// Whether the trace is kept: the client's word, or a throw of the dice.
    pub is_sampled: bool,
}

// === impl TraceId ===

impl TraceId {
    /// A new trace.
    fn random() -> Self {
        Self(rand::random())
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

// === impl SpanId ===

impl SpanId {
    /// A new step.
    pub(crate) fn random() -> Self {
        Self(rand::random())
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

// === impl TraceParent ===

impl TraceParent {
    /// Reads a header; `None` if it is not what the standard allows. Of a later version what version 00 knows is read.
    pub fn parse(header: &[u8]) -> Option<Self> {
        let (known, rest) = header.split_at_checked(LENGTH)?;
        let is_whole = match hex(&known[..2])? {
            0 => rest.is_empty(),
            NO_VERSION => false,
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        if !is_whole || [2, 35, 52].iter().any(|&dash| known[dash] != b'-') {
            return None;
        }
        let trace = u128::from(hex(&known[3..19])?) << 64 | u128::from(hex(&known[19..35])?);
        Some(Self {
            trace: TraceId(NonZeroU128::new(trace)?),
            span: SpanId(NonZeroU64::new(hex(&known[36..52])?)?),
            is_sampled: hex(&known[53..])? & SAMPLED != 0,
        })
    }

    /// As a header has it; written by hand, because each request of a worker has one.
    fn to_header(self) -> [u8; LENGTH] {
        let mut header = [b'-'; LENGTH];
        write_hex(0, &mut header[..2]);
        write_hex(self.trace.0.get(), &mut header[3..35]);
        write_hex(self.span.0.get().into(), &mut header[36..52]);
        write_hex(self.is_sampled.into(), &mut header[53..]);
        header
    }

    /// What a request says; one header that contradicts another says nothing.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let mut given = headers.get_all(PARENT).iter();
        let (only, None) = (given.next()?, given.next()) else { return None };
        Self::parse(only.as_bytes().trim_ascii())
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_header().iter().try_for_each(|byte| f.write_char(char::from(*byte)))
    }
}

/// As many of the last digits as there is room for.
fn write_hex(mut number: u128, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 0xf) as usize];
        number >>= 4;
    }
}

/// At most 16 digits; upper case is not allowed.
fn hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(value))
    })
}

// === impl TraceContext ===

impl TraceContext {
    /// Goes on with the client's trace, or begins a new one and keeps so many of them (0 to 1).
    pub fn of(headers: &HeaderMap, sample: f64) -> Self {
        let span = SpanId::random();
        match TraceParent::of(headers) {
            Some(TraceParent { trace, span: parent, is_sampled }) => {
                Self { trace, span, parent: Some(parent), is_sampled }
            }
            None => Self {
                trace: TraceId::random(),
                span,
                parent: None,
                is_sampled: rand::random::<f64>() < sample,
            },
        }
    }

    /// Tells the next one in the trace that `span` calls it. What the client's own tracing added goes with it, unless
    /// the trace is none of the client's.
    pub fn propagate(&self, span: SpanId, headers: &mut HeaderMap) {
        let parent = TraceParent { trace: self.trace, span, is_sampled: self.is_sampled };
        let given = self.parent.and_then(|_| state::joined(headers.get_all(STATE)));
        headers.remove(STATE);
        headers.extend(given.map(|state| (STATE, state)));
        match HeaderValue::from_bytes(&parent.to_header()) {
            Ok(value) => drop(headers.insert(PARENT, value)),
            Err(_impossible) => drop(headers.remove(PARENT)),
        }
    }
}

#[cfg(test)]
mod tests;
