//! When an engine's process was started, as its own metrics tell.
//!
//! Exporters for Prometheus in most languages have this one series by default, and an engine whose exporter leaves it
//! out (vLLM with several API servers, SGLang) says nothing, which is an answer too.

use std::time::Duration;

use crate::exposition::series;
use crate::http::get;
use crate::{CallError, HttpClient};

/// Pause after a question that brought no answer: a restarted engine may publish before it serves.
const PAUSE: Duration = Duration::from_secs(1);
const FAMILY: &str = "process_start_time_seconds";

/// Live events wait for the answer. An engine that takes longer is still loading, so that it publishes nothing yet and
/// will be heard from its first number on.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks until the server answers; since the Unix epoch by its clock, `None` where it does not tell in time.
pub(super) async fn ask_start_time(client: &HttpClient, url: &str) -> Option<Duration> {
    tokio::time::timeout(PATIENCE, ask_until_answered(client, url)).await.ok().flatten()
}

async fn ask_until_answered(client: &HttpClient, url: &str) -> Option<Duration> {
    loop {
        match get(client, url, "/metrics").await {
            Ok(answer) if answer.status.is_server_error() => {}
            Ok(answer) => return answer.text().and_then(read),
            Err(CallError::BadAddress { .. } | CallError::TooLong(_)) => return None,
            Err(CallError::Broken(_) | CallError::Shortage(_) | CallError::TimedOut(_)) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn read(exposition: &str) -> Option<Duration> {
    let start = series(exposition.as_bytes()).find(|series| series.is(FAMILY))?;
    Duration::try_from_secs_f64(start.value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_read_where_it_is_told() {
        let cases = [
            (
                "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.76e+09\n",
                Some(1_760_000_000),
            ),
            ("a 1\nprocess_start_time_seconds{job=\"a} b\"} 12 1700000000000\n", Some(12)),
            ("process_start_time_seconds_total 5\nprocess_start_time_seconds 7\n", Some(7)),
            ("process_start_time_seconds NaN\n", None),
            ("process_start_time_seconds -3\n", None),
            ("process_start_time_seconds\n", None),
            ("", None),
        ];
        for (text, seconds) in cases {
            assert_eq!(read(text), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
