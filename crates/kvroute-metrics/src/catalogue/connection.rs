//! Connections of clients that never became requests.

use super::{Kind, Label, Plane, RefusedConnection, Row, Values};

const PLANE: Label = Label { name: "plane", values: Values::Of(Plane::VALUES) };
const REASON: Label = Label { name: "reason", values: Values::Of(RefusedConnection::VALUES) };

pub(crate) const REFUSED_CONNECTIONS: Row = Row {
    name: "kvroute_refused_connections_total",
    kind: Kind::Counter,
    labels: &[PLANE, REASON],
    buckets: &[],
    unit: "connections",
    help: "Connections of clients that were refused before a request of theirs could be read, by why",
    population: "connections beyond server.limits.connections, and those of HTTP/1.1 whose next head cannot be read; what is \
                 refused here is in no other family",
    moves: "once a connection, when it is refused",
    zero: "0: none was refused so; every plane and reason exists from the start",
    act: "limit: raise server.limits.connections, or add a router; head_too_large: a client sends more than 64 KiB or 100 \
          headers; malformed_head: a client does not speak HTTP, or speaks TLS where none is set up",
    differs: "",
};
