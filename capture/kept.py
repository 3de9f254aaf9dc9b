"""Tables of results that were kept: the small files behind docs/validation.md.

`docs/validation/collect.py` writes such a file from a results folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .results import Row
from .tables import markdown

OFF_BY = 0.025
"""From this error of the prediction on, an arm is in the table of evidence."""
EVIDENCE = (
    "arm",
    "machine",
    "off by",
    "predicted − measured ms",
    "all GPU work less ms",
    "same products less ms",
    "same other kernels less ms",
    "SM clock MHz",
    "power W",
    "capped",
)


@dataclass(frozen=True)
class Kept:
    """Arms of one model on one machine: rows as in a result table, and what was read besides."""

    model: str
    machine: str
    rows: tuple[Row, ...]
    borrowed: tuple[Row, ...]
    """Controls that ran on another machine only."""
    readings: Mapping[str, Mapping[str, Any]]


def read_kept(path: Path) -> Kept:
    """One file written by `docs/validation/collect.py`."""
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    known = {field.name for field in fields(Row)}
    rows: dict[bool, list[Row]] = {False: [], True: []}
    for arm in values["arms"]:
        given = {name: value for name, value in arm.items() if name in known}
        rows[arm["borrowed"]].append(Row(title="", **given))
    readings = {arm["arm"]: arm for arm in values["arms"]}
    return Kept(values["model"], values["machine"], tuple(rows[False]), tuple(rows[True]), readings)


def result_table(kept: Kept) -> str:
    """The result table, with a line on arms judged against a control of another machine."""
    text = markdown(kept.rows)
    for control in kept.borrowed:
        judged = [f"`{row.arm}`" for row in kept.rows if row.control == control.arm]
        text += (
            f"\n{', '.join(judged)}: `{control.arm}` did not run on machine {kept.machine}; "
            f"predicted from {control.step_ms:,.1f} ms on the other one.\n"
        )
    return text


def evidence_table(groups: Sequence[Kept]) -> str:
    """Where a prediction is off: how much faster the same work ran than in the control."""
    lines = [list(EVIDENCE), ["---", "---"] + ["---:"] * (len(EVIDENCE) - 2)]
    for kept in groups:
        lines += [_cells(kept, row) for row in _judged(kept)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _judged(kept: Kept) -> Iterator[Row]:
    """Arms far off, and for comparison those that expose least and most of the others."""
    able = [row for row in kept.rows if row.prediction_error is not None]
    far = [row for row in able if abs(row.prediction_error or 0) >= OFF_BY]
    near = sorted((r for r in able if r not in far), key=lambda row: row.exposed_ms or 0)
    yield from sorted([*far, *near[:1], *near[1:][-1:]], key=lambda row: -(row.exposed_ms or 0))


def _cells(kept: Kept, row: Row) -> list[str]:
    mine, control = kept.readings[row.arm], kept.readings[row.control or ""]
    work, usual = (sum(entry["lanes"].values()) for entry in (mine, control))
    same = mine.get("same_kernels", {})
    return [
        f"{kept.model}: {row.arm}",
        kept.machine,
        f"{100 * (row.prediction_error or 0):+.1f} %",
        f"{(row.predicted_ms or 0) - (row.step_ms or 0):+.1f}",
        f"{usual - work:+.1f}",
        *(_less(same.get(name)) for name in ("products", "rest")),
        _reading(mine, control, "sm_mhz"),
        _reading(mine, control, "watts"),
        _share(mine.get("clocks")),
    ]


def _less(kernels: Mapping[str, Any] | None) -> str:
    """Of the same kernels, which recordings say; "–" where none were kept or none are the same."""
    if kernels is None or kernels["ratio"] is None:
        return "–"
    return f"{kernels['less_ms']:+.1f} ({100 * (1 - kernels['ratio']):+.1f} %)"


def _reading(mine: Mapping[str, Any], control: Mapping[str, Any], key: str) -> str:
    """The arm's reading, and its control's if that was read on the same machine."""
    if "clocks" not in mine:
        return "–"
    text = f"{mine['clocks'][key]:.0f}"
    return f"{text} ({control['clocks'][key]:.0f})" if "clocks" in control else text


def _share(clocks: Mapping[str, Any] | None) -> str:
    return "–" if clocks is None else f"{100 * clocks['capped_share']:.0f} %"
