//! What an index must offer to be measured.

use super::measure::Busy;
use super::workload::Event;

/// An index as its own callers use it, with the forms of events and queries that it takes: making those is not measured.
pub(crate) trait Index: Sized {
    const NAME: &'static str;

    type Event;
    type Query;
    /// What the one thread that applies events keeps.
    type Writer;
    /// Where a lookup leaves its answer; kept from call to call, as a caller that cares for speed does.
    type Answer: Default;

    fn new(workers: usize) -> Self;
    fn writer(&self) -> Self::Writer;
    fn event(event: &Event) -> Self::Event;
    fn query(contents: &[u64]) -> Self::Query;

    /// Reads every hash of a query, which brings it into the processor's cache: a router has just computed them.
    fn read(query: &Self::Query) -> u64;

    fn apply(&self, writer: &mut Self::Writer, event: Self::Event);

    /// Returns when lookups see everything that was applied.
    fn flush(&self) {}

    fn find(&self, query: &Self::Query, answer: &mut Self::Answer);

    /// Tells each worker with a prefix, and its length in blocks. Not measured.
    fn each_prefix(answer: &Self::Answer, workers: usize, tell: impl FnMut(u32, u32));

    /// Applies events while another thread looks up; `None` if only one thread may use the index.
    fn busy(
        &self,
        writer: &mut Self::Writer,
        events: Vec<Self::Event>,
        queries: &[Self::Query],
    ) -> Option<Busy>;
}
