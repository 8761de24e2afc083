"""Plain text tables, as they stand in docs/e2e.md."""

from .audit import Report
from .pair import Handed
from .tokens import Check


def grid(head: list[str], rows: list[list[object]]) -> str:
    """Columns of equal width; numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[column]) for row in [head, *cells]) for column in range(len(head))]
    is_number = [all(isinstance(row[column], (int, type(None))) for row in rows) for column in range(len(head))]
    lines = []
    for row in [head, ["-" * width for width in widths], *cells]:
        lines.append("  ".join(_align(*each) for each in zip(row, widths, is_number, strict=True)).rstrip())
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _align(cell: str, width: int, is_number: bool) -> str:
    return cell.rjust(width) if is_number else cell.ljust(width)


def phase(report: Report) -> str:
    head = ["engine", "answers", "prompts", "F4 (router)", "its own counter", "shown to clients", "as promised", "less", "more"]
    rows: list[list[object]] = [
        [row.engine, row.answers, row.own.prompt, row.router, row.own.cached, row.shown, row.equal, row.short, row.beyond]
        for row in report.rows
    ]
    own = [sum(row.own.prompt for row in report.rows), sum(row.own.cached for row in report.rows)]
    shown = sum(row.shown for row in report.rows)
    sums = [sum(getattr(row, name) for row in report.rows) for name in ("equal", "short", "beyond")]
    rows.append(["all", report.requests, own[0], report.reused, own[1], shown, *sums])
    lines = [f"## {report.phase}", "", grid(head, rows)]
    lines += [f"F0 {report.input:,}   reports {report.outcomes}   lost in delivery {report.lost}"]
    lines += [f"note: {note}" for note in report.notes]
    lines += [f"WRONG: {wrong}" for wrong in report.wrong]
    return "\n".join(lines)


def tokens(checks: list[Check]) -> str:
    head = ["chat", "engine", "router", "usage", "tokenize", "promised", "reused", "outcome", ""]
    rows: list[list[object]] = []
    for each in checks:
        lengths = [each.counted, each.reported, each.endpoint, each.promised, each.reused]
        rows.append([each.chat, each.engine, *lengths, each.outcome, "" if each.agrees else "WRONG"])
    return grid(head, rows)


def handed(pair: Handed) -> str:
    head = ["requests", "prompts", "F4 (prefill)", "its own counter", "shown to clients", "taken over by decode"]
    row: list[object] = [pair.requests, pair.prompts, pair.reused_in_router, pair.reused_by_prefill, pair.shown, pair.transferred]
    lines = ["## prefill on one vLLM, decode on another", "", grid(head, [row]), f"reports {pair.outcomes}"]
    return "\n".join([*lines, *(f"WRONG: {wrong}" for wrong in pair.wrong)])
