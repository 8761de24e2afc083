//! The requests of one run, made as they are needed: what a tokenizer has just written is in the processor's cache.

use std::sync::Arc;

use super::contestant::Request;
use crate::index::workload::{Workload, tokens};

/// Requests without an end, the same for every contestant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic<'a> {
    queries: &'a [Vec<u64>],
    next: usize,
    step: usize,
}

// === impl Traffic ===

impl<'a> Traffic<'a> {
    /// All requests of a workload, over and over again.
    pub(crate) fn new(workload: &'a Workload) -> Self {
        Self { queries: &workload.queries, next: 0, step: 1 }
    }

    /// Every `of`-th of the requests that are left, beginning with the `number`-th.
    pub(crate) fn share(self, number: usize, of: usize) -> Self {
        Self { next: self.next + number * self.step, step: of * self.step, ..self }
    }
}

impl Iterator for Traffic<'_> {
    type Item = Arc<Request>;

    fn next(&mut self) -> Option<Arc<Request>> {
        let query = &self.queries[self.next % self.queries.len()];
        let prompt = query.iter().flat_map(|content| tokens(*content)).collect();
        let request = Request { id: format!("request-{}", self.next), prompts: vec![prompt] };
        self.next += self.step;
        Some(Arc::new(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_together_the_whole_and_name_no_request_twice() {
        let workload = Workload::chat(4, 2, 100, 1);
        let ids =
            |traffic: Traffic<'_>| traffic.take(3).map(|request| request.id.clone()).collect::<Vec<_>>();
        let mut traffic = Traffic::new(&workload);
        traffic.next();
        assert_eq!(ids(traffic.share(0, 2)), ["request-1", "request-3", "request-5"]);
        assert_eq!(ids(traffic.share(1, 2)), ["request-2", "request-4", "request-6"]);
    }
}
