use std::collections::BTreeSet;

use super::*;

fn domain(model: &str) -> Arc<Domain> {
    let text = || "x".to_owned();
    Arc::new(Domain {
        model: model.to_owned(),
        block_size: 16,
        hash_scheme: text(),
        namespace_scheme: text(),
    })
}

fn history(count: u64) -> Arc<History> {
    let history = History::new(1 << 20, 7);
    history.teach(&(0..count).map(SequenceHash::from_raw).collect::<Vec<_>>());
    Arc::new(history)
}

fn asker(raw: u128) -> (Origin, u64) {
    (Origin::from_raw(raw), 1)
}

#[test]
fn all_hashes_go_once_in_parts_of_the_given_size() {
    let (mut transfers, history) = (Transfers::default(), history(10_000));
    transfers.request(asker(1), domain("m"), Some(Arc::clone(&history)));
    let (mut transfer, mut seen) = (transfers.take().unwrap(), Vec::new());
    loop {
        let (part, end) = transfer.next_part(300);
        assert!(part.len() <= 300);
        seen.extend(part.iter().map(|hash| hash.get()));
        if end == PartEnd::Last {
            break;
        }
        assert_eq!(part.len(), 300, "only the last part is smaller");
    }
    let different: BTreeSet<u64> = seen.iter().copied().collect();
    assert_eq!((seen.len(), different.len()), (10_000, 10_000));
}

#[test]
fn an_empty_history_is_one_empty_last_part() {
    let mut transfers = Transfers::default();
    transfers.request(asker(1), domain("m"), Some(history(0)));
    let (part, end) = transfers.take().unwrap().next_part(300);
    assert_eq!((part.len(), end), (0, PartEnd::Last));
}

#[test]
fn a_history_that_is_not_there_is_refused() {
    let mut transfers = Transfers::default();
    transfers.request(asker(1), domain("m"), None);
    assert_eq!(transfers.take().unwrap().next_part(300), (Vec::new(), PartEnd::Refused));
}

#[test]
fn too_many_at_once_are_refused_and_far_too_many_not_heard() {
    let mut transfers = Transfers::default();
    for raw in 0..MOST_WAITING as u128 + 5 {
        transfers.request(asker(raw), domain("m"), Some(history(1)));
    }
    let ends: Vec<PartEnd> =
        std::iter::from_fn(|| transfers.take()).map(|mut transfer| transfer.next_part(9).1).collect();
    assert_eq!(ends.len(), MOST_WAITING);
    assert_eq!(ends.iter().filter(|end| **end == PartEnd::Last).count(), MOST_TRANSFERS);
}

#[test]
fn those_who_ask_take_turns_and_asking_again_starts_anew() {
    let (mut transfers, history) = (Transfers::default(), history(1000));
    transfers.request(asker(1), domain("m"), Some(Arc::clone(&history)));
    transfers.request(asker(2), domain("m"), Some(Arc::clone(&history)));
    let first = transfers.take().unwrap();
    assert_eq!(first.to, Origin::from_raw(1));
    transfers.put_back(first);
    assert_eq!(transfers.take().unwrap().to, Origin::from_raw(2));
    transfers.request(asker(1), domain("m"), Some(Arc::clone(&history)));
    transfers.request(asker(1), domain("other"), Some(history));
    assert_eq!(transfers.turns.len(), 2, "one a domain");
}

#[tokio::test(start_paused = true)]
async fn bytes_go_at_the_given_rate() {
    let (mut pace, start) = (Pace::new(1000.0), Instant::now());
    for _ in 0..10 {
        pace.spend(500).await;
    }
    assert_eq!(start.elapsed().as_millis(), 5000);
    tokio::time::advance(Duration::from_secs(60)).await;
    let later = Instant::now();
    pace.spend(500).await;
    assert_eq!(later.elapsed().as_millis(), 500, "time that nobody used is not saved up");
}
