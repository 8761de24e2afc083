"""What is driven through the router, phase by phase; each is a function that returns what the reader has to know."""

import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from .audit import Audit
from .client import CHAT, COMPLETION, Client, at_once, text
from .engines import MODEL, Engine, Publishing
from .process import wait_until
from .router import Router
from .wire import Answer, Json, leave_before_answer

ASKS_FOR_USAGE: Json = {"stream": True, "stream_options": {"include_usage": True}}
RESETS = 3
WAYS: tuple[Json, ...] = ({}, ASKS_FOR_USAGE, {"stream": True}, {})


@dataclass
class Stage:
    """All that a phase plays with."""

    client: Client
    router: Router
    engines: list[Engine]
    chance: random.Random
    audit: Audit
    wrong: list[str] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[Engine]:
        return [engine for engine in self.engines if engine.kind == kind]


class Talk:
    """A conversation, whose next turn has all the turns before it."""

    def __init__(self, system: str) -> None:
        self.messages: list[Json] = [{"role": "system", "content": system}]

    def turn(self, client: Client, chance: random.Random, **more: object) -> None:
        self.messages.append({"role": "user", "content": text(chance, chance.randint(4, 40))})
        answer = client.chat(self.messages, **more)
        self.messages.append({"role": "assistant", "content": answer.content()})


def talks(stage: Stage) -> list[str]:
    """Conversations one request at a time, so that every promise must be kept to the token."""
    systems = [text(stage.chance, words) for words in (60, 110, 35)]
    open_talks = [Talk(stage.chance.choice(systems)) for _ in range(12)]
    for turn in range(6):
        for talk in open_talks:
            talk.turn(stage.client, stage.chance, **WAYS[(turn + len(talk.messages)) % len(WAYS)])
            stage.router.settle()
    return []


def completions(stage: Stage) -> list[str]:
    """Texts and token ids, prompts that end on a block boundary, salts, and prompts that push others out."""
    beginnings = [text(stage.chance, 90) for _ in range(4)]
    ids = [2000 + 7 * position % 900 for position in range(256)]
    send = stage.client.complete
    jobs: list[Callable[[], object]] = []
    for _ in range(12):
        prompt = f"{stage.chance.choice(beginnings)} {text(stage.chance, stage.chance.randint(1, 30))}"
        jobs.append(partial(send, prompt, **stage.chance.choice(WAYS)))
    for length in (31, 32, 33, 64, 64, 96, 96, 200, 200, 256):
        jobs.append(partial(send, ids[:length]))
    for salt in ("a", "b", "a", "b", "a"):
        for engine in stage.of_kind("vllm")[:1] + stage.of_kind("sglang"):
            jobs.append(partial(send, beginnings[0], engine, cache_salt=salt))
    for _ in range(6):
        jobs.append(partial(send, text(stage.chance, 400)))
        jobs.append(partial(send, stage.chance.choice(beginnings)))
    for job in jobs:
        job()
        stage.router.settle()
    return []


def crowd(stage: Stage) -> list[str]:
    """Many at once: what was promised and what was found may differ, but every token has its reason."""
    systems = [text(stage.chance, words) for words in (80, 50)]
    seeds = [stage.chance.randrange(1 << 30) for _ in range(20)]

    def hold(seed: int) -> None:
        chance = random.Random(seed)
        talk = Talk(chance.choice(systems))
        for _ in range(6):
            talk.turn(stage.client, chance, **chance.choice(WAYS))

    at_once(8, [partial(hold, seed) for seed in seeds])
    return ["With several requests at once an answer may find more than was promised, and an eviction may come in between."]


def choices(stage: Stage) -> list[str]:
    """Two choices: the prompt stands once in usage, and some engines look it up once a choice."""
    for engine in stage.engines:
        prompt = text(stage.chance, 80)
        for way in (*WAYS, *WAYS):
            stage.client.send(
                CHAT,
                {"messages": [{"role": "user", "content": prompt}], "n": 2, "max_tokens": 6, "temperature": 0.8, **way},
                engine,
            )
            stage.router.settle()
    return ["Usage counts the prompt of two choices once; the engines' counters count it once a choice."]


def lists(stage: Stage) -> list[str]:
    """Lists of prompts: vLLM and llama.cpp report the reuse of one of them, SGLang that of all."""
    for engine in stage.engines:
        prompts = [text(stage.chance, 70) for _ in range(3)]
        for way in ({}, ASKS_FOR_USAGE, {}):
            stage.client.complete(prompts, engine, **way)
            stage.router.settle()
    return ["Reports of lists are `ambiguous` on engines that report one prompt's reuse; they are left out of F4."]


def leaving(stage: Stage) -> list[str]:
    """Clients that leave, in the middle of a stream and before an answer: nothing may stay behind."""
    for engine in stage.engines:
        for leave_after in (1, 3, 6):
            body = {"messages": [{"role": "user", "content": text(stage.chance, 60)}], "max_tokens": 200, "stream": True}
            stage.client.send(CHAT, body, engine, leave_after=leave_after)
        body = {"model": MODEL, "prompt": text(stage.chance, 60), "max_tokens": 200}
        leave_before_answer(stage.router.url, COMPLETION, body, {"x-kvroute-worker": engine.worker_id}, 0.5)
        wait_until(f"{engine.name} has stopped what nobody waits for", engine.is_idle, 60)
    return ["An attempt whose client left is `unfinished`; the engines counted its prompt, and told nobody."]


def resets(stage: Stage) -> list[str]:
    """Caches that are emptied behind the router's back."""
    prompt = text(stage.chance, 120)
    for _ in range(RESETS):
        for engine in stage.engines:
            if not isinstance(engine, Publishing):
                continue
            for _ in range(2):
                stage.client.complete(prompt, engine)
                stage.router.settle()
            engine.empty_cache()
            stage.router.settle()
            for _ in range(2):
                stage.client.complete(prompt, engine)
                stage.router.settle()
    return ["vLLM tells of a reset only with its next step: the first request after it was promised what was gone."]


def death(stage: Stage) -> list[str]:
    """One engine dies in the middle of its answers, which others finish, and comes back empty."""
    victim = stage.of_kind("vllm")[-1]
    assert victim.process
    broken = die_in_the_middle(stage, victim)
    prompt = text(stage.chance, 120)
    for turn in range(12):
        stage.client.complete(f"{prompt} {turn}")
    wait_until("the router has noticed", lambda: not stage.router.sees(victim, "ready"), 120)
    victim.start()
    victim.wait_until_ready()
    stage.audit.restarted(victim)
    wait_until("the router has it back", lambda: stage.router.sees(victim, "ready"), 120)
    for _ in range(3):
        stage.client.complete(prompt, victim)
        stage.router.settle()
    return [f"{victim.name} was killed with {broken} answers under way, and started again; its counters begin anew."]


def die_in_the_middle(stage: Stage, victim: Engine) -> int:
    """How many answers were under way. Each must end as if nothing had happened: the model is greedy."""
    assert victim.process
    prompts = [text(stage.chance, 50) for _ in range(10)]
    long: Json = {"max_tokens": 150, "temperature": 0, **ASKS_FOR_USAGE}
    with ThreadPoolExecutor(len(prompts)) as pool:
        asked = [pool.submit(stage.client.send, COMPLETION, {"prompt": prompt, **long}) for prompt in prompts]
        wait_until(f"{victim.name} has answers under way", lambda: victim.running() > 1, 30)
        under_way = victim.running()
        victim.process.kill()
        answers = [each.result() for each in asked]
    for prompt, answer in zip(prompts, answers, strict=True):
        if not answer.headers.get("x-kvroute-worker", "").startswith(victim.worker_id):
            continue
        body = {"prompt": prompt, **long}
        alone = [stage.client.alone(engine, COMPLETION, body) for engine in stage.engines if engine is not victim]
        stage.wrong += differences(answer, alone)
    return under_way


def differences(answer: Answer, alone: list[Answer]) -> list[str]:
    """Between an answer whose engine died and those of the living: kinds round differently, so one of them must be equal."""
    wrong = []
    said, undisturbed = answer.content(), alone[0]
    if said not in [each.content() for each in alone]:
        right = undisturbed.content()
        same = max(len(os.path.commonprefix([said, each.content()])) for each in alone)
        wrong.append(f"an answer of {len(right)} letters differs from letter {same} on: {said[same:same + 40]!r}")
    for name in ("prompt_tokens", "completion_tokens"):
        told, counted = ((each.usage or {}).get(name) for each in (answer, undisturbed))
        if told != counted:
            wrong.append(f"a continued answer says {name} {told}, undisturbed {counted}")
    return wrong
