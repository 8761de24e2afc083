use super::*;

fn spec(json: &str) -> Result<WorkerConfig, String> {
    let spec: WorkerSpec = serde_json::from_str(json).map_err(|error| error.to_string())?;
    spec.read().map_err(|error| error.to_string())
}

#[test]
fn a_worker_of_which_only_the_address_is_told_is_as_in_the_configuration() {
    assert_eq!(spec(r#"{"url": "HTTP://A/"}"#), Ok(WorkerConfig::at("http://a:80")));
    assert_eq!(spec(r#"{"url": "https://a"}"#), Ok(WorkerConfig::at("https://a:443")));
}

#[test]
fn every_field_is_read_as_in_the_configuration() {
    let all = r#"{"url": "http://a:1", "role": "decode", "kv_events": "tcp://a:5557", "kv_replay": "none", "dp_ranks": 2}"#;
    let expected = WorkerConfig {
        role: WorkerRole::Decode,
        kv_events: EventEndpoint::Connect(Endpoint::new("a", 5557)),
        kv_replay: EventEndpoint::None,
        dp_ranks: Some(2),
        ..WorkerConfig::at("http://a:1")
    };
    assert_eq!(spec(all), Ok(expected));
    assert_eq!(spec(r#"{"url": "http://a:1", "dp_ranks": "auto"}"#), Ok(WorkerConfig::at("http://a:1")));
    assert_eq!(spec(r#"{"url": "http://a:1", "dp_ranks": "3"}"#).unwrap().dp_ranks, Some(3));
}

#[test]
fn a_password_is_not_repeated() {
    for url in ["http://user:secret@a", "user:secret@a", "http://user:sec@ret@a"] {
        let refusal = WorkerSpec::at(url).read().unwrap_err().to_string();
        assert!(!refusal.contains("sec") && refusal.contains("***@a"), "{refusal}");
    }
    let long = WorkerSpec::at(format!("ftp://{}", "ä".repeat(200))).read().unwrap_err();
    assert_eq!(long.value.chars().count(), LONGEST_SHOWN + 1);
}

#[test]
fn what_cannot_be_is_named_with_its_field_and_what_it_could_be() {
    for (json, said) in [
        (r#"{"url": "ftp://a"}"#, "url is \"ftp://a\"; expected an address"),
        (r#"{"url": "http://a?x=1"}"#, "expected an address without a query"),
        (r#"{"url": "http://u:p@a"}"#, "expected an address without a user name"),
        (r#"{"url": "http://a", "role": "both"}"#, "role is \"both\"; expected \"aggregated\""),
        (r#"{"url": "http://a", "kv_events": "tcp://a:0"}"#, "kv_events is \"tcp://a:0\"; expected \"auto\""),
        (r#"{"url": "http://a", "kv_replay": "bind:tcp://a:1"}"#, "kv_replay is \"bind:tcp://a:1\""),
        (r#"{"url": "http://a", "dp_ranks": 0}"#, "dp_ranks is \"0\"; expected \"auto\" or a number"),
        (r#"{"url": "http://a", "dp_ranks": 4294967296}"#, "dp_ranks is \"4294967296\""),
        (r#"{"url": "http://a", "wieght": 1}"#, "unknown field `wieght`"),
        (r#"{"role": "decode"}"#, "missing field `url`"),
    ] {
        let refusal = spec(json).unwrap_err();
        assert!(refusal.contains(said), "{json}: {refusal}");
    }
}
