//! The texts of several closed sets as one set: a text that stands in two of them stands in it once.

/// How many there are.
pub(super) const fn count(sets: &[&[&str]]) -> usize {
    let (mut count, mut set) = (0, 0);
    while set < sets.len() {
        let mut text = 0;
        while text < sets[set].len() {
            count += !is_in_front(sets, set, text) as usize;
            text += 1;
        }
        set += 1;
    }
    count
}

/// All of them, in the order in which they are first seen.
pub(super) const fn join<const N: usize>(sets: &[&[&'static str]]) -> [&'static str; N] {
    let mut joined = [""; N];
    let (mut at, mut set) = (0, 0);
    while set < sets.len() {
        let mut text = 0;
        while text < sets[set].len() {
            if !is_in_front(sets, set, text) {
                joined[at] = sets[set][text];
                at += 1;
            }
            text += 1;
        }
        set += 1;
    }
    joined
}

/// Whether a set in front of this one has its text. Within a set all texts differ.
const fn is_in_front(sets: &[&[&str]], set: usize, text: usize) -> bool {
    let mut other = 0;
    while other < set {
        let mut at = 0;
        while at < sets[other].len() {
            if is_same(sets[other][at], sets[set][text]) {
                return true;
            }
            at += 1;
        }
        other += 1;
    }
    false
}

const fn is_same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut at = 0;
    while at < left.len() && at < right.len() && left[at] == right[at] {
        at += 1;
    }
    at == left.len() && at == right.len()
}
