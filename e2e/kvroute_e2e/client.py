"""Sends requests through the router and keeps what each one was promised and got."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .engines import MODEL, Engine
from .router import Router
from .wire import Answer, Json, ask

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"


@dataclass(frozen=True)
class Record:
    """One answer: who gave it, what the router promised, what the engine said to the client."""

    worker: str | None
    predicted: int | None
    prompt: int | None
    cached: int | None
    error: str | None
    what: str


class Client:
    """A trusted caller, so that each answer tells where it came from and what was predicted."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.records: list[Record] = []
        self._lock = threading.Lock()

    def send(
        self,
        path: str,
        body: Json,
        to: Engine | None = None,
        leave_after: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        pin = {"x-kvroute-worker": to.worker_id} if to else {}
        answer = ask(self.router.url, path, {"model": MODEL, **body}, {**pin, **(headers or {})}, leave_after)
        self._keep(path, body, answer, has_left=leave_after is not None)
        return answer

    def chat(self, messages: list[Json], **more: object) -> Answer:
        return self.send(CHAT, {"messages": messages, "max_tokens": 12, "temperature": 0, **more})

    def complete(self, prompt: object, to: Engine | None = None, **more: object) -> Answer:
        return self.send(COMPLETION, {"prompt": prompt, "max_tokens": 4, "temperature": 0, **more}, to)

    def alone(self, engine: Engine, path: str, body: Json) -> Answer:
        """The same request, sent to an engine past the router."""
        return ask(engine.url, path, {"model": MODEL, **body})

    def _keep(self, path: str, body: Json, answer: Answer, has_left: bool) -> None:
        error = answer.error
        if error is None and not answer.has_ended and answer.chunks and not has_left:
            error = "the stream ended without its last event"
        predicted = answer.headers.get("x-kvroute-predicted-cached-tokens")
        record = Record(
            answer.headers.get("x-kvroute-worker"),
            int(predicted) if predicted else None,
            answer.prompt_tokens if answer.status == 200 else None,
            answer.cached_tokens if answer.status == 200 else None,
            error,
            f"{path} {sorted(body.keys() - {'messages', 'prompt'})}",
        )
        with self._lock:
            self.records.append(record)


def at_once(width: int, jobs: list[Callable[[], object]]) -> list[object]:
    """Runs jobs, so many at a time; the first that fails fails all."""
    with ThreadPoolExecutor(width) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


WORDS = (
    "amber anchor basin beacon birch bridge cedar cinder cobalt coral delta dune ember fable fern fjord gravel hazel "
    "indigo ivory jasper juniper kelp lagoon linen maple meadow mirror nickel oasis onyx opal orchid pebble quarry "
    "quartz raven ridge saffron sierra slate summit tundra umber velvet walnut willow zephyr"
).split()


def text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(words))
