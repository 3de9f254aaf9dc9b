"""The result table as Markdown and JSON, and the arms on the frontier of time and memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from nsysoverlap.core.output import write_atomically
from nsysoverlap.result.numbers import format_share

from .results import Row

COLUMNS = (
    "arm",
    "step ms",
    "TFLOP/s/device",
    "peak GiB",
    "host GiB",
    "D2H hidden",
    "H2D hidden",
    "relief",
    "exposed ms",
    "predicted ms",
    "off by",
    "why",
)


def write_results(folder: Path, rows: Sequence[Row]) -> str:
    """Write `results.md` and `results.json`; returns the Markdown."""
    text = markdown(rows)
    write_atomically(folder / "results.md", text)
    values = [row.to_dict() for row in rows]
    write_atomically(folder / "results.json", json.dumps(values, indent=1) + "\n")
    return text


def markdown(rows: Sequence[Row]) -> str:
    """One line an arm, and below it the frontier of step time against peak memory."""
    lines = [list(COLUMNS), ["---"] + ["---:"] * (len(COLUMNS) - 2) + ["---"]]
    lines += [_cells(row) for row in rows]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{table}\n\n{frontier_text(rows)}\n"


def _cells(row: Row) -> list[str]:
    error = row.prediction_error
    return [
        row.arm,
        _number(row.step_ms),
        _number(row.tflops),
        _number(peak(row)),
        _number(row.host_gib, 2),
        format_share(row.d2h_hidden),
        format_share(row.h2d_hidden),
        format_share(row.relief_share),
        _number(row.exposed_ms),
        _number(row.predicted_ms),
        "–" if error is None else f"{error * 100:+.1f} %",
        row.finding if row.status == "ok" else f"**{row.status}**: {row.reason}",
    ]


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def peak(row: Row) -> float | None:
    """GiB in use at most; what the compiler planned where the device does not say."""
    return row.planned_gib if row.peak_gib is None else row.peak_gib


def frontier(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Arms that no other beats on both step time and peak memory, by time; and the rest.

    Void and failed arms take no part.
    """
    able = [row for row in rows if row.status == "ok" and row.step_ms and peak(row) is not None]
    best: list[Row] = []
    beaten: list[Row] = []
    lowest = float("inf")
    for row in sorted(able, key=lambda row: (row.step_ms, peak(row))):
        size = peak(row)
        if size is not None and size < lowest:
            lowest = size
            best.append(row)
        else:
            beaten.append(row)
    return best, beaten


def frontier_text(rows: Sequence[Row]) -> str:
    """The frontier in words."""
    best, beaten = frontier(rows)
    if not best:
        return "No arm has both a step time and a memory reading."
    names = ", ".join(row.arm for row in best)
    text = f"On the frontier of step time and peak memory: {names}."
    if beaten:
        text += " Worse than another arm on both: " + ", ".join(r.arm for r in beaten) + "."
    return text
