"""The rules by which a phase passes. Each is one sentence of docs/e2e.md."""

from .audit import Report
from .engines import Engine


def same_reuse(report: Report) -> None:
    """F4 of each engine, and of all of them, is what the engines counted themselves."""
    for row in report.rows:
        if row.router != row.own.cached:
            report.wrong.append(f"{row.engine}: the router counted {row.router} reused tokens, the engine {row.own.cached}")
    total = sum(row.own.cached for row in report.rows)
    if report.reused != total:
        report.wrong.append(f"F4 is {report.reused}, the engines counted {total}")


def same_input(report: Report) -> None:
    """F0 is what the engines counted as prompts."""
    total = sum(row.own.prompt for row in report.rows)
    if report.input != total:
        report.wrong.append(f"F0 is {report.input}, the engines counted {total}")


def all_reported(report: Report) -> None:
    """Every attempt has a valid report."""
    others = {outcome: count for outcome, count in report.outcomes.items() if outcome != "reported"}
    if others:
        report.wrong.append(f"reports that are not valid: {others}")


def promises_kept(report: Report, engines: list[Engine], exceptions: int = 0) -> None:
    """Of engines with events each answer reused exactly min(F3, whole blocks of prompt - 1)."""
    with_events = {engine.name for engine in engines if engine.block}
    for row in report.rows:
        if row.engine in with_events and row.beyond:
            report.wrong.append(f"{row.engine}: {row.beyond} answers reused more than was predicted")
    short = sum(row.short for row in report.rows if row.engine in with_events)
    if short > exceptions:
        report.wrong.append(f"{short} answers reused less than was predicted, {exceptions} are explained")


def nothing_unexplained(report: Report) -> None:
    """No token that was promised and computed again is without its reason."""
    if unexplained := report.lost.get("unexplained"):
        report.wrong.append(f"{unexplained} tokens lost in delivery are unexplained")


def exact(report: Report) -> None:
    """The rules for a phase in which nothing is left, repeated or asked twice."""
    for rule in (same_reuse, same_input, all_reported, nothing_unexplained):
        rule(report)
