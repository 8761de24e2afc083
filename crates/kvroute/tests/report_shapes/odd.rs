//! Odd reports, each with its own outcome, in every shape.

use kvroute_sim::{Faults, OddReport, SimConfig};
use kvroute_testkit::Fleet;

use crate::asking::{QUESTION, Shape, outcomes, reported_input, reused};

/// The outcome of an odd report of a prompt that the router counted, and of one that it did not.
const ODD: [(OddReport, [&str; 2]); 8] = [
    (OddReport::Missing, ["missing", "missing"]),
    (OddReport::Null, ["invalid", "invalid"]),
    (OddReport::Negative, ["invalid", "invalid"]),
    (OddReport::Fraction, ["invalid", "invalid"]),
    (OddReport::Text, ["invalid", "invalid"]),
    (OddReport::Overflow, ["invalid", "invalid"]),
    (OddReport::AbovePrompt, ["impossible", "unchecked"]),
    (OddReport::WrongPrompt, ["mismatched", "unchecked"]),
];

#[tokio::test]
async fn every_odd_report_has_its_outcome_in_every_shape() {
    for (odd, outcome) in ODD {
        let fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
        Shape::all()[0].ask(&fleet, QUESTION).await;
        let faults = Faults { odd_reports: vec![odd], ..Faults::default() };
        fleet.engines[0].set_faults(faults).await.unwrap();
        for shape in Shape::all() {
            let (before, stats) = (fleet.at_rest().await, fleet.engines[0].stats());
            shape.ask(&fleet, QUESTION).await;
            let (after, now) = (fleet.at_rest().await, fleet.engines[0].stats());
            let outcome = outcome[usize::from(!shape.is_counted())];
            assert_eq!(outcomes(&after, outcome), outcomes(&before, outcome) + 1, "{odd:?} {shape:?}");
            let prompt = now.prompt_tokens - stats.prompt_tokens;
            let truly = now.reused_tokens - stats.reused_tokens;
            let (told, input) = match (odd, outcome) {
                (OddReport::AbovePrompt, "unchecked") if is_message(shape) => (prompt + 1, prompt + 1),
                (OddReport::AbovePrompt, _) => (prompt + 1, prompt),
                (OddReport::WrongPrompt, "unchecked") => (truly, prompt + 1),
                _ => (0, 0),
            };
            assert_eq!(reused(&after) - reused(&before), told, "{odd:?} {shape:?}");
            assert_eq!(reported_input(&after) - reported_input(&before), input, "{odd:?} {shape:?}");
        }
        fleet.stop().await;
    }
}

/// There the prompt is what was read of the cache and all the rest.
fn is_message(shape: Shape) -> bool {
    shape.endpoint == kvroute_openai::Endpoint::Messages
}
