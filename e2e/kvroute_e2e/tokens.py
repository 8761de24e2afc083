"""Does the router count every chat as the engine does? Asked of each engine through a router of its own.

An equal length does not prove equal tokens. So each chat is sent twice: the engine's events told which tokens it stored, and
only if the router's own are the same does it promise, the second time, what the engine then finds.
"""

from dataclasses import dataclass

from .chats import CHATS
from .client import CHAT, Client
from .engines import Engine
from .router import Router
from .wire import Answer, Json, Metrics

REPORTS = "kvroute_router_reuse_reports_total"
UNCOUNTED = "kvroute_uncounted_attempts_total"


@dataclass
class Check:
    """One chat on one engine: prompt lengths, absent where they were not told, and what came of the second time."""

    chat: str
    engine: str
    counted: int | None
    reported: int | None
    endpoint: int | None
    promised: int | None
    reused: int | None
    outcome: str
    has_blocks: bool

    def __str__(self) -> str:
        lengths = f"{self.counted} counted, {self.reported} reported"
        return f"{self.engine}: {self.chat}: {lengths}; {self.promised} promised, {self.reused} reused"

    @property
    def agrees(self) -> bool:
        has_length = self.counted is not None and self.counted == self.reported
        return has_length and (not self.has_blocks or self.promised == self.reused)


def check(router: Router, engine: Engine, client: Client) -> list[Check]:
    return [_check(router, engine, client, name, chat) for name, chat in CHATS.items()]


def _check(router: Router, engine: Engine, client: Client, name: str, chat: Json) -> Check:
    router.settle()
    before = router.metrics()
    first = _send(engine, client, chat)
    router.settle()
    moved = _moved(before, router.metrics(), UNCOUNTED, "reason")
    outcomes = _moved(before, router.metrics(), REPORTS, "outcome")
    second = _send(engine, client, chat)
    promised = second.headers.get("x-kvroute-predicted-cached-tokens")
    return Check(
        name,
        engine.name,
        None if moved else router.decision(first)["input_tokens"],
        first.prompt_tokens,
        _endpoint(engine, chat),
        int(promised) if promised else None,
        second.cached_tokens,
        " ".join([*(f"uncounted ({reason})" for reason in moved), *outcomes]),
        engine.block is not None,
    )


def _send(engine: Engine, client: Client, chat: Json) -> Answer:
    return client.send(CHAT, {**chat, "max_tokens": 1, "temperature": 0}, engine)


def _moved(before: Metrics, after: Metrics, name: str, label: str) -> list[str]:
    """The values of a label whose series grew."""
    series = after.having(name)
    return [labels[label] for labels, value in series if value > before.sum(name, **labels)]


def _endpoint(engine: Engine, chat: Json) -> int | None:
    try:
        return len(engine.ids_of(chat))
    except (KeyError, ValueError):
        return None
