use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_resolver::proto::rr::Name;
use hickory_resolver::proto::rr::rdata::{A, AAAA, SRV};

use super::*;

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn record(ttl: u32, data: RData) -> Record {
    Record::from_rdata(name("engines.test."), ttl, data)
}

fn srv(ttl: u32, priority: u16, target: &str, port: u16) -> Record {
    record(ttl, RData::SRV(SRV::new(priority, 0, port, name(target))))
}

fn places(answer: &Answer) -> Vec<&str> {
    answer.places.iter().map(String::as_str).collect()
}

#[test]
fn services_tell_hosts_and_ports_and_the_shortest_of_them_how_long() {
    let answer =
        services(&[srv(30, 0, "B.test.", 8000), srv(7, 0, "a.test.", 8001), srv(30, 0, "a.test.", 8000)]);
    assert_eq!(places(&answer), ["a.test:8000", "a.test:8001", "b.test:8000"]);
    assert_eq!(answer.holds, Duration::from_secs(7));
}

#[test]
fn services_that_stand_in_for_others_are_left_to_the_router() {
    let answer =
        services(&[srv(30, 10, "spare.test.", 1), srv(30, 5, "a.test.", 1), srv(30, 5, "b.test.", 1)]);
    assert_eq!(places(&answer), ["a.test:1", "b.test:1"]);
}

#[test]
fn a_lone_dot_is_nobody() {
    assert_eq!(places(&services(&[srv(30, 0, ".", 1)])), Vec::<&str>::new());
    assert_eq!(places(&services(&[srv(30, 0, "a.test.", 0)])), Vec::<&str>::new());
}

#[test]
fn addresses_of_both_kinds_get_the_port() {
    let four = record(30, RData::A(A(Ipv4Addr::new(10, 0, 0, 1))));
    let six = record(9, RData::AAAA(AAAA(Ipv6Addr::LOCALHOST)));
    let answer = addresses(&[four, six], 8000);
    assert_eq!(places(&answer), ["10.0.0.1:8000", "[::1]:8000"]);
    assert_eq!(answer.holds, Duration::from_secs(9));
}

#[test]
fn what_stands_for_other_names_is_no_worker() {
    let alias = record(5, RData::CNAME(hickory_resolver::proto::rr::rdata::CNAME(name("other.test."))));
    let answer = addresses(&[alias, record(30, RData::A(A(Ipv4Addr::LOCALHOST)))], 1);
    assert_eq!(places(&answer), ["127.0.0.1:1"]);
    assert_eq!(answer.holds, Duration::from_secs(5), "the alias may lead elsewhere by then");
}
