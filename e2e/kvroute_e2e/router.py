"""The router under test: the program that users start, with a configuration file and its two ports."""

import json
from pathlib import Path

from .engines import MODEL, Engine
from .process import Process, free_ports, wait_until
from .wire import Answer, Json, Metrics, ask, scrape

CLOSED = "kvroute_attempts_total"


class Router:
    """One pool of engines, all of which serve the same model."""

    def __init__(self, name: str, program: Path, root: Path, logs: Path, engines: list[Engine], **pool: str) -> None:
        self.engines, self.log = engines, logs / f"{name}.log"
        port, admin = free_ports(2)
        self.url, self.admin = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{admin}"
        self.config = logs / f"{name}.toml"
        self.config.write_text(configuration(port, admin, root / "model", engines, pool))
        self.process = Process.start(name, [str(program), "serve", "--config", str(self.config)], self.log)

    def wait_until_ready(self) -> None:
        wait_until("the router serves every engine", self._is_ready, 120)

    def stop(self) -> None:
        self.process.stop()

    def metrics(self) -> Metrics:
        return scrape(self.admin)

    def workers(self) -> list[Json]:
        return list(ask(self.admin, "/api/workers").json)

    def worker(self, engine: Engine) -> Json:
        return next(worker for worker in self.workers() if worker["url"].rstrip("/") == engine.url)

    def sees(self, engine: Engine, state: str) -> bool:
        return bool(self.worker(engine)["state"] == state)

    def decision(self, answer: Answer) -> Json:
        """What was decided for this answer's request; its report is there once the request is over."""
        path = f"/api/decisions/{answer.headers['x-kvroute-decision']}"
        wait_until("the decision has its report", lambda: ask(self.admin, path).json["report"] is not None, 30)
        return dict(ask(self.admin, path).json)

    def settle(self) -> None:
        """Waits until nothing is under way and no event comes any more: only then do counters speak of the same things."""
        seen: list[object] = []

        def is_at_rest() -> bool:
            metrics = self.metrics()
            load = metrics.sum("dynamo_frontend_worker_active_decode_blocks")
            load += metrics.sum("dynamo_frontend_worker_active_prefill_tokens")
            events = metrics.sum("kvroute_index_events_total")
            seen.append((metrics.sum(CLOSED), events, load))
            return load == 0 and len(seen) > 2 and len(set(seen[-3:])) == 1

        wait_until("the router is at rest", is_at_rest, 120)

    def _is_ready(self) -> bool:
        self.process.check()
        try:
            workers = self.workers()
        except (OSError, json.JSONDecodeError):
            return False
        return len(workers) == len(self.engines) and all(worker["state"] == "ready" for worker in workers)


def configuration(port: int, admin: int, tokenizer: Path, engines: list[Engine], pool: dict[str, str]) -> str:
    lines = [
        "[server]",
        f'listen = "127.0.0.1:{port}"',
        f'admin_listen = "127.0.0.1:{admin}"',
        'trusted = ["127.0.0.1"]',
        "[[pool]]",
        f'model = "{MODEL}"',
        f'tokenizer = "{tokenizer}"',
        *(f"{key} = {value}" for key, value in pool.items()),
    ]
    for engine in engines:
        lines += ["[[pool.worker]]", f'url = "{engine.url}"']
        if engine.role != "aggregated":
            lines += [f'role = "{engine.role}"']
        if engine.names_events:
            lines += [f'kv_events = "tcp://127.0.0.1:{engine.events}"', f'kv_replay = "tcp://127.0.0.1:{engine.replay}"']
    return "\n".join(lines) + "\n"
