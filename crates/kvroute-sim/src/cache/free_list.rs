//! The order in which idle blocks are taken: a doubly linked list over block numbers, so that a block that is
//! reused leaves the middle in constant time.

/// A list of distinct numbers below a bound.
#[derive(Debug)]
pub(super) struct FreeList {
    /// Neighbours of each number; the last entry is the list's own head and tail.
    links: Vec<Link>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

// === impl FreeList ===

impl FreeList {
    /// All numbers below `count`, in order.
    pub(super) fn full(count: u32) -> Self {
        let ends = Link { previous: count, next: count };
        let mut list = Self { links: vec![ends; count as usize + 1], len: 0 };
        (0..count).for_each(|number| list.push_back(number));
        list
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push_back(&mut self, number: u32) {
        self.insert_before(number, self.end());
    }

    pub(super) fn push_front(&mut self, number: u32) {
        let first = self.links[self.end() as usize].next;
        self.insert_before(number, first);
    }

    pub(super) fn pop_front(&mut self) -> Option<u32> {
        let first = self.links[self.end() as usize].next;
        if first == self.end() {
            return None;
        }
        self.remove(first);
        Some(first)
    }

    /// Takes out a number that is in the list.
    pub(super) fn remove(&mut self, number: u32) {
        let Link { previous, next } = self.links[number as usize];
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
        self.len -= 1;
    }

    fn insert_before(&mut self, number: u32, next: u32) {
        let previous = self.links[next as usize].previous;
        self.links[number as usize] = Link { previous, next };
        self.links[previous as usize].next = number;
        self.links[next as usize].previous = number;
        self.len += 1;
    }

    const fn end(&self) -> u32 {
        (self.links.len() - 1) as u32
    }
}
