"""The phases in their order, each with the rules by which it passes."""

from collections.abc import Callable

from . import judge, phases
from .audit import Report
from .engines import Engine

Phase = Callable[[phases.Stage], list[str]]
Rules = Callable[[Report, list[Engine]], None]


def one_by_one(report: Report, engines: list[Engine]) -> None:
    judge.exact(report)
    judge.promises_kept(report, engines)


def in_a_crowd(report: Report, _engines: list[Engine]) -> None:
    judge.exact(report)


def as_shown(report: Report, _engines: list[Engine]) -> None:
    """Where engines count otherwise than their answers, the answers are what the router has to agree with."""
    judge.nothing_unexplained(report)


def after_resets(report: Report, engines: list[Engine]) -> None:
    judge.exact(report)
    resets_of_vllm = phases.RESETS * sum(engine.kind == "vllm" for engine in engines)
    judge.promises_kept(report, engines, exceptions=resets_of_vllm)


def with_the_dead(report: Report, engines: list[Engine]) -> None:
    judge.promises_kept(report, engines)
    judge.nothing_unexplained(report)


PLAN: list[tuple[str, Phase, Rules]] = [
    ("conversations, one request at a time", phases.talks, one_by_one),
    ("completions, token ids, salts, evictions", phases.completions, one_by_one),
    ("conversations, eight at once", phases.crowd, in_a_crowd),
    ("two choices", phases.choices, as_shown),
    ("lists of prompts", phases.lists, as_shown),
    ("clients that leave", phases.leaving, as_shown),
    ("caches that are emptied", phases.resets, after_resets),
    ("an engine that dies in the middle", phases.death, with_the_dead),
]
