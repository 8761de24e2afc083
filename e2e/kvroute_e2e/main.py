"""The whole run: start everything, drive every phase, print what was found, end everything."""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from . import pair, phases, table, tokens
from .audit import Audit, Report
from .client import Client
from .engines import Engine, LlamaCpp, Sglang, Vllm, VllmLeg
from .plan import PLAN, Phase, Rules
from .router import Router
from .wire import Json

# No process has this number.
NOBODY = 1 << 30
REPOSITORY = Path(__file__).resolve().parents[2]


class Run:
    """One fleet, the routers that are put in front of it, and what they disagreed about."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.program: Path = options.router
        self.root, self.logs = Path(options.engines), options.logs
        self.logs.mkdir(parents=True, exist_ok=True)
        self.chance = random.Random(options.seed)
        self.only: str | None = options.only
        self.keeps: bool = options.keep
        self.kept = self.logs / "engines.json"
        self.alone = Vllm("vllm-a", self.root, self.logs)
        self.engines: list[Engine] = [
            self.alone,
            Vllm("vllm-b", self.root, self.logs),
            Sglang("sglang", self.root, self.logs),
            LlamaCpp("llama.cpp", self.root, self.logs),
        ]
        self.prefill = VllmLeg("vllm-prefill", self.root, self.logs, "prefill")
        self.decode = VllmLeg("vllm-decode", self.root, self.logs, "decode")
        self.started: list[Engine] = []
        for engine in (*self.engines[:2], self.prefill, self.decode):
            engine.names_events = options.name_events
        self.routers: list[Router] = []
        self.wrong: list[str] = []

    def all(self) -> int:
        """The exit code: 1 if anything disagrees."""
        try:
            self.start([*self.engines, *([self.prefill, self.decode] if self.wants("pair") else [])])
            show(self.heading())
            self.fleet([phase for phase in PLAN if not self.only or self.only in phase[0]])
            self.part("tokens", self.tokens)
            self.part("pair", self.pair)
        finally:
            self.end()
        show(f"{len(self.wrong)} disagreements" if self.wrong else "router and engines agree")
        return 1 if self.wrong else 0

    def start(self, engines: list[Engine]) -> None:
        """What was kept running from an earlier run, or new ones."""
        for engine in engines:
            if not engine.adopt(self.remembered().get(engine.name, {"pid": NOBODY})):
                say(f"starting {engine.name}")
                engine.start()
            self.started.append(engine)
        if self.keeps:
            self.remember()
        for engine in engines:
            engine.wait_until_ready()

    def remembered(self) -> Json:
        return dict(json.loads(self.kept.read_text())) if self.kept.exists() else {}

    def remember(self) -> None:
        started = {engine.name: engine.traits for engine in self.started}
        self.kept.write_text(json.dumps({**self.remembered(), **started}))

    def wants(self, part: str) -> bool:
        return self.only in (None, part)

    def part(self, name: str, do: Callable[[], None]) -> None:
        """What breaks off here is a finding, and the rest goes on."""
        if not self.wants(name):
            return
        try:
            do()
        except (OSError, RuntimeError, ValueError, LookupError) as failure:
            traceback.print_exc()
            show(f"WRONG: {name} broke off: {failure}")
            self.wrong.append(f"{name} broke off: {failure}")

    def heading(self) -> str:
        command = [str(self.program), "--version"]
        version = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        kinds = {engine.kind: engine.version() for engine in self.engines}
        now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        return "\n".join([f"# {version}, {now}", *(f"{kind} {version}" for kind, version in kinds.items())])

    def router(self, name: str, engines: list[Engine], **pool: str) -> Router:
        router = Router(name, self.program, self.root, self.logs, engines, **pool)
        self.routers.append(router)
        router.wait_until_ready()
        return router

    def fleet(self, wanted: list[tuple[str, Phase, Rules]]) -> None:
        """All engines behind one router."""
        if not wanted:
            return
        router = self.router("router", self.engines, **{"history.enabled": "true"})
        show(sources(router))
        client = Client(router)
        for title, do, judged_by in wanted:
            say(title)
            report = self.phase(title, do, client, router)
            judged_by(report, self.engines)
            show(table.phase(report))
            self.wrong += [f"{title}: {each}" for each in report.wrong]

    def phase(self, title: str, do: Phase, client: Client, router: Router) -> Report:
        audit = Audit(title, client, router, self.engines)
        broken: list[str] = []
        stage = phases.Stage(client, router, self.engines, self.chance, audit)
        try:
            notes = do(stage)
        except (OSError, ValueError, LookupError, TypeError) as failure:
            traceback.print_exc()
            notes, broken = [], [f"the phase broke off: {failure!r}"]
            self.revive(audit)
        report = audit.close(notes)
        report.wrong += stage.wrong + broken
        return report

    def revive(self, audit: Audit) -> None:
        """A phase that broke off may have left an engine dead."""
        for engine in self.engines:
            if not engine.is_running():
                engine.start()
                engine.wait_until_ready()
                audit.restarted(engine)

    def pair(self) -> None:
        """A prefill and a decode engine beside the fleet, of which one says what it would have answered alone."""
        say("prefill on one engine, decode on another")
        router = self.router("router-pair", [self.prefill, self.decode])
        handed = pair.drive(router, self.prefill, self.decode, self.alone, self.chance)
        show(table.handed(handed))
        self.wrong += [f"pair: {each}" for each in handed.wrong]

    def tokens(self) -> None:
        """One router an engine kind, because a pool counts by the rules of its engines."""
        checks: list[tokens.Check] = []
        identities: dict[str, str] = {}
        for engine in {engine.kind: engine for engine in reversed(self.engines)}.values():
            say(f"chats on {engine.name}")
            router = self.router(f"router-{engine.name}", [engine])
            checks += tokens.check(router, engine, Client(router))
            identities[engine.name] = (router.worker(engine)["identity"] or {}).get("state", "unknown")
        show(f"## chats that engines normalise\n\n{table.tokens(checks)}\nidentity {identities}")
        self.wrong += [f"tokens: {each}" for each in checks if not each.agrees]
        self.wrong += [f"identity of {name} is {state}" for name, state in identities.items() if state != "proven"]

    def end(self) -> None:
        for router in self.routers:
            router.stop()
        if self.keeps:
            # One may have been started anew by a phase.
            self.remember()
            return
        for engine in self.started:
            engine.stop()
        self.kept.unlink(missing_ok=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description="Two vLLM, one SGLang and one llama.cpp behind one router; docs/e2e.md")
    engines, program = os.environ.get("KVROUTE_E2E"), REPOSITORY / "target/release/kvroute"
    arguments.add_argument("--engines", default=engines, help="folder made by e2e/setup (KVROUTE_E2E)")
    arguments.add_argument("--router", type=Path, default=program, help="the built program")
    logs = Path(tempfile.gettempdir()) / "kvroute-e2e"
    arguments.add_argument("--logs", type=Path, default=logs, help="folder for logs and configurations")
    arguments.add_argument("--seed", type=int, default=7, help="other traffic")
    arguments.add_argument("--name-events", action="store_true", help="tell the router where vLLM's events are")
    arguments.add_argument("--keep", action="store_true", help="leave the engines running for the next run")
    only = "phases whose title has this in it; `tokens`: the chats; `pair`: prefill and decode"
    arguments.add_argument("--only", help=only)
    options = arguments.parse_args()
    if not options.engines:
        arguments.error("name the folder of the engines: KVROUTE_E2E or --engines")
    return Run(options).all()


def sources(router: Router) -> str:
    head = ["worker", "state", "source", "block", "problem"]
    rows: list[list[object]] = []
    for worker in router.workers():
        for rank in worker["ranks"]:
            why = worker["problem"] or rank["source_reason"]
            rows.append([worker["id"], worker["state"], rank["source_state"], rank["block_size"], why])
    return table.grid(head, rows)


def show(what: str) -> None:
    print(what, end="\n\n", flush=True)


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)
