//! Time that the router itself adds to a request.

use super::{Kind, Label, LatencyPart, Row, Values};
use crate::buckets;

const PART: Label = Label { name: "part", values: Values::Of(LatencyPart::VALUES) };

pub(crate) const ADDED_LATENCY_SECONDS: Row = Row {
    name: "kvroute_added_latency_seconds",
    kind: Kind::Histogram,
    labels: &[PART],
    buckets: buckets::ADDED_LATENCY_SECONDS,
    unit: "seconds",
    help: "Time that a request or a piece of its answer spent in the router: before_dispatch from the request's headers \
           until it is handed to the HTTP client, less its wait in the queue; per_chunk from a piece's arrival until it is \
           handed on",
    population: "before_dispatch: requests that were sent to a worker, of every model; per_chunk: pieces of streams as the \
                 network brought them, of which one may hold several events",
    moves: "before_dispatch once a request, when it is first sent; per_chunk with every piece of a stream; a whole answer, \
            which is read to its end first, gives no sample of it",
    zero: "no sample: nothing was sent, or nothing was streamed; both parts exist from the start",
    act: "before_dispatch high: bodies come slowly, or prompts are long for the tokenizer (stage preprocess); per_chunk high: \
          too few cores, or huge chunks such as log probabilities",
    differs: "",
};
