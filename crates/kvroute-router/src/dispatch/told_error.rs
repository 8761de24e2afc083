//! Whose fault an error is that an engine tells in the body of an answer, behind a status that says that all is well.
//!
//! Engines have no other way once the head of a stream is gone, and some send the head before they look at the request. So
//! the same place holds refusals of requests that are wrong, which say nothing of the worker, and its own failures.

use serde_json::Value;

/// Words in the type of an error that the request caused.
const REFUSALS: [&str; 4] = ["badrequest", "invalid", "notfound", "unprocessable"];

/// Whether a body or the data of an event is an error of the worker's own.
pub(crate) fn is_own_fault(json: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(json) else { return false };
    let is_error = value["object"] == "error" || value["type"] == "error";
    match &value["error"] {
        Value::Null if is_error => is_fault(&value),
        Value::Null => false,
        error => is_fault(error),
    }
}

/// Whether one of the events in these bytes is such an error. One that is not there as a whole tells nothing.
pub(crate) fn tells_own_fault(events: &[u8]) -> bool {
    data_lines(events).any(is_own_fault)
}

/// The data of the first event that has any, once that event is complete.
pub(super) fn first_data(stream: &[u8]) -> Option<&[u8]> {
    let complete = stream.iter().rposition(|byte| *byte == b'\n').map(|end| &stream[..=end])?;
    data_lines(complete).next()
}

fn data_lines(events: &[u8]) -> impl Iterator<Item = &[u8]> {
    events.split(|byte| matches!(byte, b'\n' | b'\r')).filter_map(|line| line.strip_prefix(b"data:"))
}

/// By its code where it has one, by the word for its kind where not.
fn is_fault(error: &Value) -> bool {
    let code = &error["code"];
    let number = code.as_u64().or_else(|| code.as_str()?.parse().ok());
    if let Some(code) = number.filter(|code| (400..600).contains(code)) {
        return code >= 500;
    }
    let kind = error["type"].as_str().unwrap_or_default().to_ascii_lowercase().replace('_', "");
    !REFUSALS.iter().any(|word| kind.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_decides_and_without_one_the_kind() {
        let faults = [
            r#"{"error":{"message":"x","type":"InternalServerError","code":500}}"#,
            r#"{"error":{"message":"x","type":"BadRequestError","code":503}}"#,
            r#"{"error":{"message":"x","code":"500"}}"#,
            r#"{"object":"error","message":"x","type":"ServerError"}"#,
            r#"{"error":"x"}"#,
            r#"{"type":"error","error":{"type":"api_error","message":"x"}}"#,
        ];
        let others = [
            r#"{"error":{"message":"too long","type":"BadRequestError","code":400}}"#,
            r#"{"error":{"message":"x","type":"InternalServerError","code":429}}"#,
            r#"{"object":"error","message":"x","type":"invalid_request_error"}"#,
            r#"{"choices":[]}"#,
            r#"{"error":null,"choices":[]}"#,
            "[DONE]",
        ];
        for fault in faults {
            assert!(is_own_fault(fault.as_bytes()), "{fault}");
        }
        for other in others {
            assert!(!is_own_fault(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn the_first_data_is_that_of_a_complete_line() {
        assert_eq!(first_data(b""), None);
        assert_eq!(first_data(b"data: {\"a\""), None);
        assert_eq!(first_data(b": ping\n\n"), None);
        assert_eq!(first_data(b": ping\n\ndata: {}\n"), Some(&b" {}"[..]));
        assert_eq!(first_data(b"event: x\r\ndata: 1\r\n\r\ndata: 2\r\n"), Some(&b" 1"[..]));
    }

    #[test]
    fn one_of_several_events_may_be_the_error() {
        assert!(tells_own_fault(b"data: {\"choices\":[]}\n\ndata: {\"error\":{\"code\":500}}\n\n"));
        assert!(!tells_own_fault(b"data: {\"choices\":[]}\n\ndata: {\"error\":{\"code\":5"));
    }
}
