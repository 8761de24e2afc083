"""A prefill and a decode vLLM behind one router: whose reuse is told, and is the answer that of one engine alone?"""

import random
from dataclasses import dataclass

from .client import CHAT, Client, text
from .engines import Vllm, VllmLeg
from .phases import ASKS_FOR_USAGE, Talk
from .router import Router

REUSED = "dynamo_component_router_kv_worker_reused_tokens_total"
REPORTS = "kvroute_router_reuse_reports_total"
FALLBACKS = "kvroute_prefill_fallbacks_total"


@dataclass
class Handed:
    """All conversations of the pair, in tokens."""

    requests: int
    prompts: int
    # What the prefill engine counted, what the router counted for its phase, what clients saw.
    reused_by_prefill: int
    reused_in_router: int
    shown: int
    # What the decode engine took over, and what came of its reports.
    transferred: int
    outcomes: dict[str, int]
    wrong: list[str]


def drive(router: Router, prefill: VllmLeg, decode: VllmLeg, alone: Vllm, chance: random.Random) -> Handed:
    client = Client(router)
    router.settle()
    before, counted, taken = router.metrics(), prefill.count(), decode.transferred()
    system = text(chance, 90)
    talks = [Talk(system) for _ in range(5)]
    wrong = []
    for turn in range(4):
        for number, talk in enumerate(talks):
            talk.turn(client, chance, **({} if (turn + number) % 2 else ASKS_FOR_USAGE))
            router.settle()
            wrong += differences(talk, client, alone)
    after = router.metrics()
    records = client.records
    reused = after.sum(REUSED, phase="prefill") - before.sum(REUSED, phase="prefill")
    handed = Handed(
        len(records),
        sum(record.prompt or 0 for record in records),
        (prefill.count() - counted).cached,
        reused,
        sum(record.cached or 0 for record in records),
        decode.transferred() - taken,
        {f"{labels['phase']} {labels['outcome']}": int(value) for labels, value in after.having(REPORTS) if value},
        wrong + [record.error for record in records if record.error],
    )
    handed.wrong += judge(handed, after.sum(FALLBACKS))
    return handed


def differences(talk: Talk, client: Client, alone: Vllm) -> list[str]:
    """The last answer against that of an engine which does both itself: the model is greedy, so they are equal."""
    body = {"messages": talk.messages[:-1], "max_tokens": 12, "temperature": 0}
    said, own = talk.messages[-1]["content"], client.alone(alone, CHAT, body).content()
    return [] if said == own else [f"the pair said {said!r}, one engine alone {own!r}"]


def judge(handed: Handed, fallbacks: int) -> list[str]:
    wrong = []
    if handed.reused_in_router != handed.reused_by_prefill:
        wrong.append(f"F4 of phase prefill is {handed.reused_in_router}, its engine counted {handed.reused_by_prefill}")
    if handed.shown != handed.reused_by_prefill:
        wrong.append(f"clients were shown {handed.shown} cached tokens, the prefill engine reused {handed.reused_by_prefill}")
    if not handed.transferred:
        wrong.append("the decode engine took nothing over")
    if fallbacks:
        wrong.append(f"{fallbacks} requests were not handed over")
    expected = {"prefill reported": handed.requests, "decode excluded": handed.requests}
    if handed.outcomes != expected:
        wrong.append(f"outcomes are {handed.outcomes}, not {expected}")
    return wrong
