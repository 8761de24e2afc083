//! Reads a whole, unstreamed response.

use bytes::Bytes;
use kvroute_core::TokenId;

use crate::response::PartReader;
use crate::{Observation, TokenIds, UsageCorrection};

/// What a whole response said, and what the client gets of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyScan {
    /// The response without the private `engine_data` and without ids that are withheld; the very same bytes when there
    /// was nothing to take out.
    pub forward: Bytes,
    /// What was seen, in the order of the wire. Empty for a body that is no JSON object.
    pub observations: Vec<Observation>,
    /// The ids that [`Observation::Generated`] speaks of.
    pub token_ids: Vec<TokenId>,
    /// The id of the response, where it is one of `/v1/responses`: what a later request may continue.
    pub response_id: Option<String>,
}

// === impl BodyScan ===

impl BodyScan {
    /// Reads a body without a look at token ids. One that cannot be read passes as it is.
    pub fn read(body: Bytes) -> Self {
        Self::read_with(body, TokenIds::Ignore)
    }

    /// Reads a body whose token ids are treated like that. One that cannot be read passes as it is.
    pub fn read_with(body: Bytes, token_ids: TokenIds) -> Self {
        Self::read_correcting(body, token_ids, UsageCorrection::default())
    }

    /// The same with counts of tokens that the client sees corrected.
    pub fn read_correcting(body: Bytes, token_ids: TokenIds, correction: UsageCorrection) -> Self {
        let mut observations = Vec::new();
        let text = std::str::from_utf8(&body).unwrap_or_default();
        let mut reader = PartReader::new(token_ids).correcting(correction);
        let forward = match reader.read(text, &mut observations) {
            Some(part) if part.is_edited => {
                let mut edited = Vec::with_capacity(text.len());
                reader.write_edited(text, &mut edited);
                Bytes::from(edited)
            }
            _ => body,
        };
        let response_id = reader.response_id().map(str::to_owned);
        Self { forward, observations, token_ids: reader.into_token_ids(), response_id }
    }
}

#[cfg(test)]
mod tests {
    use kvroute_core::{Figure, ReportSource, WorkerReport};

    use super::*;
    use crate::{FinishReason, TokenCounts};

    #[test]
    fn a_whole_answer_tells_content_end_usage_and_reuse() {
        let body = Bytes::from_static(
            br#"{"choices":[{"index":1,"message":{"content":"x"},"finish_reason":"stop"}],
                "usage":{"prompt_tokens":179,"completion_tokens":6,"prompt_tokens_details":{"cached_tokens":160}}}"#,
        );
        let scan = BodyScan::read(body.clone());
        assert_eq!(scan.forward, body);
        let report = WorkerReport {
            source: ReportSource::Usage,
            prompt: Figure::Count(179),
            reused: Figure::Count(160),
        };
        assert_eq!(
            scan.observations,
            [
                Observation::Content { choice: 1 },
                Observation::Finish { choice: 1, reason: FinishReason::Stop },
                Observation::Usage(TokenCounts { prompt: Some(179), completion: Some(6) }),
                Observation::Report(report),
            ]
        );
    }

    #[test]
    fn the_private_report_is_taken_out_and_nothing_else() {
        let body =
            r#"{"id":"é", "engine_data": {"kv_cache_hit":{"prompt_tokens":5,"reused_tokens":0}}, "x":1.50}"#;
        let scan = BodyScan::read(Bytes::from(body));
        assert_eq!(scan.forward, r#"{"id":"é", "x":1.50}"#);
        assert_eq!(scan.observations.len(), 1);
        assert_eq!(BodyScan::read(Bytes::from_static(b"{\"engine_data\":1}")).forward, "{}");
    }

    #[test]
    fn what_is_no_json_passes() {
        for body in ["", "Internal Server Error", "{\"usage\":{\"prompt_tokens\":1", "\u{feff}{}"] {
            let scan = BodyScan::read(Bytes::from(body));
            assert_eq!((scan.forward, scan.observations), (Bytes::from(body), Vec::new()));
        }
        let binary = Bytes::from_static(b"\xff\xfe{}");
        assert_eq!(BodyScan::read(binary.clone()).forward, binary);
    }
}
