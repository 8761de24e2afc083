//! `GET /api/funnel?window=5m`: the cache-reuse funnel of the last minutes, by model and phase.

use std::borrow::Cow;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use kvroute_core::Phase;
use kvroute_openai::RequestError;
use kvroute_router::{FunnelReport, FunnelSpan, RouteError};
use percent_encoding::percent_decode_str;

use super::{AdminPlane, failed};
use crate::json;

/// How far is looked back if nobody says.
const USUAL: FunnelSpan = FunnelSpan::Last(Duration::from_secs(300));

/// The longest time that can be asked for: a year. Longer ones are typing errors.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    span: FunnelSpan,
    /// Only this model.
    model: Option<String>,
    /// Only this phase.
    phase: Option<&'static str>,
}

/// Answers with what was counted since then.
pub(super) async fn read(State(plane): State<AdminPlane>, RawQuery(query): RawQuery) -> Response {
    match Question::read(query.as_deref().unwrap_or_default()) {
        Ok(question) => json::response(StatusCode::OK, &question.narrow(plane.router.funnel(question.span))),
        Err(error) => failed(&RouteError::bad_request(error)),
    }
}

// === impl Question ===

impl Question {
    fn read(query: &str) -> Result<Self, RequestError> {
        let mut question = Self { span: USUAL, model: None, phase: None };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(name, value)?;
            match name {
                "window" => question.span = span(&value)?,
                "model" => question.model = Some(value.into_owned()),
                "phase" => question.phase = Some(phase(&value)?),
                _ => {
                    let message = format!("unknown parameter {name:?}; there are window, model and phase");
                    return Err(RequestError::invalid_field(name.to_owned(), message));
                }
            }
        }
        Ok(question)
    }

    fn narrow(&self, mut report: FunnelReport) -> FunnelReport {
        let is_asked = |model: &str| self.model.as_deref().is_none_or(|asked| asked == model);
        report.rows.retain(|row| is_asked(&row.model) && self.phase.is_none_or(|phase| phase == row.phase));
        report.models.retain(|row| is_asked(&row.model));
        report
    }
}

/// Names of models may have any characters; a plus is one of them, as in a path.
fn decoded<'a>(name: &str, value: &'a str) -> Result<Cow<'a, str>, RequestError> {
    percent_decode_str(value).decode_utf8().map_err(|_| {
        RequestError::invalid_field(
            name.to_owned(),
            format!("{name} is not UTF-8 after percent-decoding: {value:?}"),
        )
    })
}

fn phase(text: &str) -> Result<&'static str, RequestError> {
    let known = Phase::ALL.map(Phase::as_str);
    known.into_iter().find(|known| *known == text).ok_or_else(|| {
        let message = format!("phase {text:?} does not exist; name one of: {}", known.join(", "));
        RequestError::invalid_field("phase", message)
    })
}

/// `all`, or a time above zero: a number with one of the units s, m, h, or without one for seconds.
fn span(text: &str) -> Result<FunnelSpan, RequestError> {
    if text == "all" {
        return Ok(FunnelSpan::All);
    }
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let seconds_of = |unit| match unit {
        "" | "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        _ => None,
    };
    let seconds = seconds_of(&text[digits.len()..]).zip(digits.parse::<u64>().ok());
    let asked = seconds.and_then(|(unit, number)| number.checked_mul(unit)).map(Duration::from_secs);
    asked.filter(|asked| !asked.is_zero() && *asked <= LONGEST).map(FunnelSpan::Last).ok_or_else(|| {
        let message = format!(
            "window is {text:?}; send a time such as 30s, 10m or 1h, a number of seconds, or all for everything since \
             the start"
        );
        RequestError::invalid_field("window", message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(seconds: u64) -> FunnelSpan {
        FunnelSpan::Last(Duration::from_secs(seconds))
    }

    fn refused(query: &str) -> String {
        Question::read(query).unwrap_err().to_string()
    }

    #[test]
    fn a_window_is_a_time_with_or_without_a_unit_or_everything() {
        let span = |query: &str| Question::read(query).unwrap().span;
        assert_eq!(span(""), last(300));
        assert_eq!(["window=30s", "window=30"].map(span), [last(30), last(30)]);
        assert_eq!(["window=10m", "window=1h"].map(span), [last(600), last(3600)]);
        assert_eq!(span("window=all"), FunnelSpan::All);
    }

    #[test]
    fn a_window_that_is_none_is_refused_with_what_can_be_sent() {
        let remedy = "; send a time such as 30s, 10m or 1h, a number of seconds, or all for everything since the start";
        for text in [
            "",
            "0",
            "0s",
            "-5m",
            "5d",
            "5 m",
            "m",
            "1.5h",
            "5mm",
            "366h0",
            "99999h",
            "18446744073709551615h",
        ] {
            assert_eq!(refused(&format!("window={text}")), format!("window is {text:?}{remedy}"));
        }
    }

    #[test]
    fn rows_can_be_asked_for_by_model_and_phase() {
        let question = Question::read("model=org%2Fname%20%22x%22&phase=prefill&").unwrap();
        let model = Some("org/name \"x\"".to_owned());
        assert_eq!(question, Question { span: USUAL, model, phase: Some("prefill") });
        assert_eq!(
            refused("phase=both"),
            "phase \"both\" does not exist; name one of: aggregated, prefill, decode"
        );
        assert_eq!(refused("model=%ff"), "model is not UTF-8 after percent-decoding: \"%ff\"");
        assert_eq!(refused("mode=x"), "unknown parameter \"mode\"; there are window, model and phase");
    }
}
