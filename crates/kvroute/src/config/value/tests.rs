use std::net::SocketAddr;
use std::time::Duration;

use kvroute_core::{BlockSize, Tokens, WorkerRole};
use kvroute_router::config::{BusyThreshold, EventEndpoint, OnMismatch, OnNoPrefill};
use kvroute_select::QueueOrder;
use kvroute_zmtp::Endpoint;
use proptest::prelude::*;

use super::*;

fn read<T: SettingType>(text: &str) -> Result<T, String> {
    T::read(&T::from_text(text))
}

#[test]
fn sizes_have_units_and_are_above_zero() {
    let bytes = |text| read::<ByteSize>(text).ok().map(|size| size.0);
    assert_eq!(bytes("32MiB"), Some(32 << 20));
    assert_eq!(bytes("10 kb"), Some(10_000));
    assert_eq!(bytes("7"), Some(7));
    for text in ["0", "-1", "1.5MiB", "MiB", "9TiB", "99999999999999GiB", ""] {
        assert_eq!(bytes(text), None, "{text}");
    }
    assert_eq!(ByteSize::read(&toml::Value::Integer(5)), Ok(ByteSize(5)));
}

#[test]
fn durations_need_a_unit() {
    let millis = |text| read::<Duration>(text).ok().map(|duration| duration.as_millis());
    assert_eq!(millis("250ms"), Some(250));
    assert_eq!(millis("2m"), Some(120_000));
    assert_eq!(millis("0s"), Some(0));
    for text in ["30", "s", "-1s", "1.5s", "1d", "9999999h", ""] {
        assert_eq!(millis(text), None, "{text}");
    }
    assert!(read::<Timeout>("0s").is_err());
    assert!(Duration::read(&toml::Value::Integer(30)).is_err(), "a bare number has no unit");
}

#[test]
fn weights_are_neither_negative_nor_absurd() {
    assert_eq!(read::<Weight>("0.5"), Ok(Weight(0.5)));
    assert_eq!(Weight::read(&toml::Value::Integer(2)), Ok(Weight(2.0)));
    assert_eq!(read::<Weight>("1e6"), Ok(Weight(1e6)));
    for text in ["-0.1", "1e308", "1000000.1", "nan", "inf", "many"] {
        assert!(read::<Weight>(text).is_err(), "{text}");
    }
}

#[test]
fn shares_are_parts_of_a_whole() {
    assert_eq!(read::<Share>("0.5"), Ok(Share(0.5)));
    assert_eq!(Share::read(&toml::Value::Integer(1)), Ok(Share(1.0)));
    for text in ["-0.1", "1.01", "100%", "nan", "all"] {
        assert!(read::<Share>(text).is_err(), "{text}");
    }
}

#[test]
fn intervals_are_off_or_long_enough() {
    assert_eq!(read::<Interval>("off"), Ok(Interval(None)));
    assert_eq!(read::<Interval>("100ms"), Ok(Interval(Some(Duration::from_millis(100)))));
    for text in ["99ms", "0s", "5", "on", ""] {
        assert!(read::<Interval>(text).is_err(), "{text}");
    }
}

#[test]
fn counts_have_their_bounds() {
    let limit = |text| read::<QueueLimit>(text).ok().map(|limit| limit.0);
    assert_eq!((limit("0"), limit("1000000"), limit("1000001")), (Some(0), Some(1_000_000), None));
    assert_eq!((limit("-1"), limit("1.5"), limit("many")), (None, None, None));
    let kept = |text| read::<RecordedCandidates>(text).ok().map(|kept| kept.0);
    assert_eq!((kept("0"), kept("1"), kept("64"), kept("65")), (None, Some(1), Some(64), None));
}

#[test]
fn a_threshold_is_a_word_or_tokens() {
    assert_eq!(read("auto"), Ok(BusyThreshold::Auto));
    assert_eq!(read("off"), Ok(BusyThreshold::Off));
    assert_eq!(read("1"), Ok(BusyThreshold::Tokens(Tokens::new(1))));
    for text in ["0", "-5", "1.5", "never", ""] {
        assert!(read::<BusyThreshold>(text).is_err(), "{text}");
    }
}

#[test]
fn every_order_of_the_queue_has_its_word() {
    for order in QueueOrder::ALL {
        assert_eq!(read(order.as_str()), Ok(order));
        assert!(QueueOrder::EXPECTED.contains(order.as_str()), "{}", order.as_str());
    }
    assert!(read::<QueueOrder>("lifo").is_err());
}

#[test]
fn sessions_are_soft_or_hard() {
    assert_eq!((read("soft"), read("hard")), (Ok(SessionMode::Soft), Ok(SessionMode::Hard)));
    assert!(read::<SessionMode>("firm").is_err());
}

#[test]
fn an_address_is_a_network_of_one() {
    let networks = |text| read::<Networks>(text).map(|networks| networks.0);
    let both = vec!["10.1.2.3/32".parse().unwrap(), "fd00::/8".parse().unwrap()];
    assert_eq!(networks("10.1.2.3, fd00::/8"), Ok(both.clone()));
    assert_eq!(networks("[\"10.1.2.3\", \"fd00::/8\"]"), Ok(both));
    assert_eq!(networks(""), Ok(Vec::new()));
    assert_eq!(networks("0.0.0.0/0"), Ok(vec!["0.0.0.0/0".parse().unwrap()]));
    for text in ["10.0.0.0/33", "10.0.0/8", "localhost", "10.0.0.1:80", "fe80::1%eth0", "10.0.0.1/8"] {
        assert!(networks(text).is_err(), "{text}");
    }
    assert!(Networks::read(&toml::Value::String("127.0.0.1".to_owned())).is_err());
}

#[test]
fn automatic_numbers_are_the_word_or_a_number_in_range() {
    let size = |text| read::<Auto<BlockSize>>(text).ok().map(|size| size.0.map(BlockSize::get));
    assert_eq!(size("auto"), Some(None));
    assert_eq!(size("16"), Some(Some(16)));
    assert_eq!((size("0"), size("-16"), size("4294967312"), size("big")), (None, None, None, None));
    assert_eq!(read::<Auto<u32>>("8"), Ok(Auto(Some(8))));
    assert!(read::<Auto<u32>>("0").is_err());
}

#[test]
fn a_worker_has_one_address_however_it_is_written() {
    for (texts, address) in [
        (
            &["http://10.0.0.1:8000", "http://10.0.0.1:8000/", "HTTP://10.0.0.1:08000//"][..],
            "http://10.0.0.1:8000",
        ),
        (&["http://a", "http://A:80", "http://a/"], "http://a:80"),
        (&["http://[::1]:1", "http://[0:0::0001]:1"], "http://[::1]:1"),
        (&["http://[FE80::A]"], "http://[fe80::a]:80"),
        (&["http://a:1/Engines/0/", "http://a:1/Engines/0"], "http://a:1/Engines/0"),
        (&["https://a", "HTTPS://A:443/"], "https://a:443"),
        (&["http://vllm-0.pool_a.svc:65535"], "http://vllm-0.pool_a.svc:65535"),
    ] {
        for text in texts {
            assert_eq!(read::<WorkerUrl>(text).map(|url| url.0).as_deref(), Ok(address), "{text}");
        }
    }
}

#[test]
fn a_worker_address_that_would_lead_elsewhere_is_refused() {
    for (text, named) in [
        ("http://a:99999", "a port between 1 and 65535"),
        ("http://a:65536", "a port between 1 and 65535"),
        ("http://a:0", "a port between 1 and 65535"),
        ("http://a:", "a port between 1 and 65535"),
        ("http://[::1]:", "a port between 1 and 65535"),
        ("http://a:+80", "a port between 1 and 65535"),
        ("http://a:1/v1", "without /v1"),
        ("http://a:1/engine/v1/", "without /v1"),
        ("http://a//b", "no empty and no dotted parts"),
        ("http://a/x/../b", "no empty and no dotted parts"),
        ("http://a/%2e%2e", "no empty and no dotted parts"),
        ("http://a/x/%2E./b", "no empty and no dotted parts"),
        ("http://a/%2e/b", "no empty and no dotted parts"),
        ("http://a/x%2F..%2fb", "no encoded slash"),
        ("http://a?x", "without a query"),
        ("http://a/#x", "without a query"),
        ("http://u:p@a", "without a user name"),
        ("http://[1.2.3.4]", "an IPv6 address in the brackets"),
    ] {
        let refusal = read::<WorkerUrl>(text).unwrap_err();
        assert!(refusal.contains(named), "{text}: {refusal}");
    }
    for text in [
        "10.0.0.1:8000",
        "a",
        "/a",
        "http://",
        "http:///x",
        "http://:80",
        "tcp://a:1",
        "http://a%41",
        "a b",
        "",
    ] {
        assert_eq!(read::<WorkerUrl>(text), Err(WorkerUrl::EXPECTED.to_owned()), "{text}");
    }
}

#[test]
fn event_endpoints_are_words_or_tcp_addresses() {
    let endpoint = read::<EventEndpoint>;
    assert_eq!(endpoint("auto"), Ok(EventEndpoint::Auto));
    assert_eq!(endpoint("none"), Ok(EventEndpoint::None));
    assert_eq!(endpoint("tcp://a:1"), Ok(EventEndpoint::Connect(Endpoint::new("a", 1))));
    assert_eq!(endpoint("bind:tcp://0.0.0.0:1"), Ok(EventEndpoint::Bind(Endpoint::new("0.0.0.0", 1))));
    for text in
        ["a:1", "tcp://a", "tcp://:1", "tcp://a:0", "tcp://a:99999", "tcp://a:*", "ipc:///x", "bind:auto", ""]
    {
        assert!(endpoint(text).is_err(), "{text}");
    }
}

#[test]
fn replay_is_never_bound() {
    assert_eq!(read("tcp://a:1"), Ok(ReplayEndpoint(EventEndpoint::Connect(Endpoint::new("a", 1)))));
    assert!(read::<ReplayEndpoint>("bind:tcp://0.0.0.0:1").is_err());
}

#[test]
fn roles_are_words() {
    assert_eq!(read("prefill"), Ok(WorkerRole::Prefill));
    assert_eq!(read::<WorkerRole>("boss").unwrap_err(), "\"aggregated\", \"prefill\" or \"decode\"");
    assert_eq!((read("strict"), read("load")), (Ok(OnNoPrefill::Strict), Ok(OnMismatch::Load)));
    assert!(read::<OnNoPrefill>("load").is_err() && read::<OnMismatch>("strict").is_err());
}

#[test]
fn migrations_and_local_prefills_are_bounded_counts() {
    let number = |number: i64| toml::Value::Integer(number);
    assert_eq!(Migrations::read(&number(0)), Ok(Migrations(0)));
    assert!(Migrations::read(&number(17)).is_err() && Migrations::read(&number(-1)).is_err());
    assert_eq!(LocalPrefill::read(&number(256)), Ok(LocalPrefill(Tokens::new(256))));
    assert!(LocalPrefill::read(&number(-1)).is_err());
}

#[test]
fn a_collector_is_named_by_its_base_address() {
    let url = |text| read::<OtlpEndpoint>(text).map(|endpoint| endpoint.0);
    assert_eq!(url("off"), Ok(None));
    assert_eq!(url("http://127.0.0.1:4318"), Ok(Some("http://127.0.0.1:4318".to_owned())));
    assert_eq!(url("http://Collector:4318/otlp/"), Ok(Some("http://collector:4318/otlp".to_owned())));
    for text in ["", "on", "127.0.0.1:4318", "https://127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://"] {
        assert!(url(text).is_err_and(|expected| expected.contains("http:// address")), "{text}");
    }
    let whole = url("http://127.0.0.1:4318/v1/traces").unwrap_err();
    assert!(whole.contains("without /v1/traces"), "{whole}");
    assert!(OtlpEndpoint::read(&toml::Value::Boolean(false)).is_err());
}

#[test]
fn a_log_is_text_or_json() {
    assert_eq!(read::<LogFormat>("text"), Ok(LogFormat::Text));
    assert_eq!(read::<LogFormat>("json"), Ok(LogFormat::Json));
    assert!(read::<LogFormat>("JSONL").is_err());
}

#[test]
fn truth_has_many_spellings() {
    for text in ["1", "true", "YES", "On"] {
        assert_eq!(read::<bool>(text), Ok(true), "{text}");
    }
    assert_eq!(read::<bool>("off"), Ok(false));
    assert!(read::<bool>("maybe").is_err());
}

proptest! {
    #[test]
    fn a_worker_address_stays_as_it_is_once_read(
        host in "[a-zA-Z0-9._-]{1,12}",
        port in prop::option::of(0_u32..70_000),
        path in "(/[a-z0-9]{0,3}){0,3}",
    ) {
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        if let Ok(url) = read::<WorkerUrl>(&format!("http://{host}{port}{path}")) {
            prop_assert_eq!(read::<WorkerUrl>(&url.0), Ok(url));
        }
    }

    #[test]
    fn no_text_panics(text in ".{0,40}") {
        let _ = read::<ByteSize>(&text);
        let _ = read::<Duration>(&text);
        let _ = read::<Weight>(&text);
        let _ = read::<WorkerUrl>(&text);
        let _ = read::<EventEndpoint>(&text);
        let _ = read::<SocketAddr>(&text);
        let _ = read::<Networks>(&text);
        let _ = read::<PolicyNames>(&text);
        let _ = read::<BusyThreshold>(&text);
        let _ = read::<Interval>(&text);
        let _ = read::<Share>(&text);
        let _ = read::<OtlpEndpoint>(&text);
        let _ = read::<Vec<String>>(&text);
        let _ = read::<std::collections::BTreeMap<String, String>>(&text);
    }
}
