//! `[pool.discovery]`: what each kind needs, and what is of no use to it.

use std::time::Duration;

use kvroute_router::config::{DiscoveryConfig, DiscoveryKind, DnsName};

use super::{load_all, problems};

fn discovery(keys: &str) -> DiscoveryConfig {
    let loaded = load_all(&format!("[[pool]]\n[pool.discovery]\n{keys}"), &[], &[]).unwrap();
    loaded.config.router.pools[0].discovery.clone().unwrap()
}

fn refused(keys: &str) -> String {
    problems(&format!("[[pool]]\n[pool.discovery]\n{keys}"))
}

#[test]
fn a_pool_may_have_nobody_but_those_who_are_found() {
    let found = discovery("kind = \"file\"\npath = \"workers\"\n");
    let kind = DiscoveryKind::File("workers".into());
    assert_eq!(found, DiscoveryConfig { kind, refresh: Duration::from_secs(30) });
}

#[test]
fn a_name_is_that_of_a_service_or_of_a_host_with_a_port() {
    let dns = |name, is_https, server: Option<&str>| DiscoveryKind::Dns {
        name,
        is_https,
        server: server.map(|server| server.parse().unwrap()),
    };
    let service = DnsName::Service("_http._tcp.engines".to_owned());
    assert_eq!(discovery("kind = \"dns\"\nname = \"_http._tcp.engines\"\n").kind, dns(service, false, None));
    let found = discovery(
        "kind = \"dns\"\nname = \"engines.\"\nport = 8000\nscheme = \"https\"\nserver = \"127.0.0.1:53\"\nrefresh = \"5s\"\n",
    );
    let host = DnsName::Host("engines.".to_owned(), 8000);
    assert_eq!(found.kind, dns(host, true, Some("127.0.0.1:53")));
    assert_eq!(found.refresh, Duration::from_secs(5));
}

#[test]
fn what_a_kind_lacks_or_has_no_use_for_is_named() {
    for (keys, named) in [
        ("kind = \"consul\"\n", "pool[0].discovery.kind is \"consul\"; expected one of: file, dns"),
        ("kind = \"file\"\n", "pool[0].discovery.path is missing, and kind = \"file\" needs it"),
        ("kind = \"dns\"\n", "pool[0].discovery.name is missing, and kind = \"dns\" needs it"),
        ("kind = \"dns\"\nname = \"engines\"\n", "so the port is not known; set pool[0].discovery.port"),
        ("kind = \"dns\"\nname = \"a b\"\n", "pool[0].discovery.name is \"a b\"; expected a name such as"),
        ("kind = \"dns\"\nname = \"a\"\nport = 0\n", "pool[0].discovery.port is 0; expected a port"),
        (
            "kind = \"file\"\npath = \"w\"\nname = \"a\"\n",
            "pool[0].discovery.name is of no use with kind = \"file\"",
        ),
        (
            "kind = \"dns\"\nname = \"_a\"\npath = \"w\"\n",
            "pool[0].discovery.path is of no use with kind = \"dns\"",
        ),
        ("path = \"w\"\n", "pool[0].discovery.path is set, but pool.discovery.kind is not"),
    ] {
        assert!(refused(keys).contains(named), "{keys:?}: {}", refused(keys));
    }
}
