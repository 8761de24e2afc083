use super::*;

fn restricted(request: &RequestShape, mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    fresh("direct").unwrap().restrict(request, &mut candidates);
    candidates
}

fn pinned() -> RequestShape {
    RequestShape { is_pinned: true, ..request(0.0) }
}

#[test]
fn a_request_that_names_no_worker_is_refused_for_good() {
    let candidates = restricted(&request(0.0), vec![idle(0), excluded(1)]);
    assert!(candidates.iter().all(|candidate| candidate.excluded == Some(Exclusion::Pinned)));
    let refusal = fresh("direct").unwrap().why_none(&request(0.0), &candidates).unwrap();
    assert!(refusal.message.contains("`direct`") && refusal.message.contains("`x-kvroute-worker`"));
    assert!(!refusal.may_pass);
}

#[test]
fn a_request_goes_to_the_worker_that_it_names() {
    let other = || Candidate { excluded: Some(Exclusion::Pinned), ..idle(0) };
    let named = restricted(&pinned(), vec![other(), loaded(1, 9)]);
    assert_eq!(picks("direct", &pinned(), &named, 10), [0, 10]);
    let with_ranks = restricted(&pinned(), vec![other(), loaded(1, 9), loaded(2, 8)]);
    assert_eq!(picks("direct", &pinned(), &with_ranks, 10), [0, 0, 10]);
    assert_eq!(reason("direct", &pinned(), &with_ranks), PickReason::Pinned);
}

#[test]
fn a_named_worker_that_is_away_is_not_the_policys_doing() {
    let away = restricted(&pinned(), vec![excluded(0)]);
    assert_eq!(away[0].excluded, Some(Exclusion::Unhealthy));
    assert_eq!(fresh("direct").unwrap().why_none(&pinned(), &away), None);
}
