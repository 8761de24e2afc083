"""What router and engines counted during one phase, and whether it is the same."""

from collections import Counter
from dataclasses import dataclass, field

from .client import Client, Record
from .engines import NOTHING, Count, Engine
from .process import wait_until
from .router import Router
from .wire import Metrics

F0 = "dynamo_component_router_input_sequence_tokens_sum"
F4 = "dynamo_component_router_kv_worker_reused_tokens_total"
OF_WORKER = "kvroute_reuse_worker_reported_tokens_total"
OUTCOMES = "kvroute_router_reuse_reports_total"
LOST = "kvroute_router_reuse_lost_tokens_total"
SURPLUS = "kvroute_router_reuse_surplus_tokens_total"


@dataclass
class Row:
    """One engine in one phase, in tokens."""

    engine: str
    answers: int
    shown: int
    router: int
    own: Count
    equal: int = 0
    short: int = 0
    beyond: int = 0


@dataclass
class Report:
    """One phase. Every finding in `wrong` fails the run; `notes` explain."""

    phase: str
    requests: int
    rows: list[Row]
    input: int
    reused: int
    outcomes: dict[str, int]
    lost: dict[str, int]
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Audit:
    """Looks at everything before a phase and after it, each time at rest."""

    def __init__(self, phase: str, client: Client, router: Router, engines: list[Engine]) -> None:
        self.phase, self.client, self.router, self.engines = phase, client, router, engines
        self.first = len(client.records)
        self.before, self.counts = self._look()

    def restarted(self, engine: Engine) -> None:
        """Its counters begin anew."""
        self.counts[engine.name] = NOTHING

    def close(self, notes: list[str]) -> Report:
        after, counts = self._look()
        records = self.client.records[self.first :]
        rows = [self._row(engine, records, after, counts[engine.name] - self.counts[engine.name]) for engine in self.engines]
        return Report(
            self.phase,
            len(records),
            rows,
            self._moved(after, F0),
            self._moved(after, F4),
            self._by_label(after, OUTCOMES, "outcome"),
            self._by_label(after, LOST, "reason", stage="delivery"),
            wrong=[f"{record.what}: {record.error}" for record in records if record.error],
            notes=notes,
        )

    def _look(self) -> tuple[Metrics, dict[str, Count]]:
        wait_until("every engine is idle", lambda: all(engine.is_idle() for engine in self.engines), 120)
        self.router.settle()
        return self.router.metrics(), {engine.name: engine.count() for engine in self.engines}

    def _row(self, engine: Engine, records: list[Record], after: Metrics, own: Count) -> Row:
        mine = [record for record in records if record.worker and record.worker.split("/")[0] == engine.worker_id]
        row = Row(
            engine.name,
            len(mine),
            sum(record.cached or 0 for record in mine),
            self._moved(after, OF_WORKER, worker_id=engine.worker_id),
            own,
        )
        for record in mine:
            if record.cached is not None and record.predicted is not None:
                row.equal += record.cached == record.predicted
                row.short += record.cached < record.predicted
                row.beyond += record.cached > record.predicted
        return row

    def _moved(self, after: Metrics, name: str, **labels: str) -> int:
        return after.sum(name, **labels) - self.before.sum(name, **labels)

    def _by_label(self, after: Metrics, name: str, label: str, **labels: str) -> dict[str, int]:
        moved: Counter[str] = Counter()
        for sign, metrics in ((1, after), (-1, self.before)):
            for have, value in metrics.having(name, **labels):
                moved[have[label]] += sign * int(value)
        return {key: value for key, value in sorted(moved.items()) if value}
