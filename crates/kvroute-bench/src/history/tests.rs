use super::*;

#[test]
fn both_histories_remember_and_forget_the_same() {
    let mut random = Random::new(1);
    let own = <History as Remember>::with_capacity(2000);
    let capacity = own.capacity().get() as usize;
    let other = PlainHistory::new(capacity);
    let fill = Fill::new(3 * capacity, &[4, 34], &mut random);
    fill.teach(&own);
    fill.teach(&other);
    assert!(fill.blocks() >= 3 * capacity && own.len() == capacity && other.len() == capacity);
    let mut partly = 0;
    for prompt in fill.kept.iter().flatten() {
        let known = Remember::known_prefix(&own, prompt);
        assert_eq!(known, other.known_prefix(prompt));
        partly += usize::from(known > 0);
    }
    assert!(partly > 0);
}

#[test]
fn a_history_for_so_many_entries_holds_hardly_more() {
    for entries in [10, 1000, 100_000] {
        let capacity = <History as Remember>::with_capacity(entries).capacity().get() as usize;
        assert!((entries..entries + entries / 50 + 20).contains(&capacity), "{capacity} for {entries}");
    }
}
