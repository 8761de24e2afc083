//! Names of the configuration that the text format has to escape.

use kvroute_core::ModelName;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Fleet, server_config};
use serde_json::json;

use super::exposition::series_of;

const MODEL: &str = "a \"quoted\" model\\with a backslash,\nand {lines} = \"two\"";
const ROUTER: &str = "rack \"7\"\\n\nsecond line";

#[tokio::test]
async fn configured_names_are_escaped_and_come_back_as_they_were() {
    let odd = |urls: &[String]| {
        let mut config = server_config(urls, "kv");
        config.router.pools[0].model = Some(ModelName::new(MODEL));
        config.metrics.const_labels = [("router_id".to_owned(), ROUTER.to_owned())].into();
        config
    };
    let engine = SimConfig { model: MODEL.to_owned(), ..SimConfig::default() };
    let fleet = Fleet::start_with(vec![engine], odd).await;
    let body = json!({"model": MODEL, "prompt": "hello to an odd model", "max_tokens": 1});
    assert_eq!(fleet.client.post(&fleet.data("/v1/completions"), &body).await.status, 200);

    let series = series_of(&fleet).await;
    for one in &series {
        assert_eq!(one.labels.get("router_id").map(String::as_str), Some(ROUTER), "{one:?}");
        if let Some(model) = one.labels.get("model") {
            assert!([MODEL, "unknown"].contains(&model.as_str()), "{one:?}");
        }
    }
    let of_model = series.iter().filter(|one| one.labels.get("model").is_some_and(|model| model == MODEL));
    assert!(of_model.count() > 50);
    let encoded: String = MODEL.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let funnel =
        fleet.client.get(&fleet.admin(&format!("/api/funnel?window=all&model={encoded}"))).await.json();
    assert_eq!(funnel["rows"][0]["model"], MODEL, "{funnel}");
    assert!(funnel["rows"][0]["input_tokens"].as_u64().unwrap() > 0, "{funnel}");
    fleet.stop().await;
}
