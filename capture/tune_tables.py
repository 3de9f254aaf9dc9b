"""What `tune` found: the table, why the losers lost, and each winner as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from nsysoverlap.core.output import write_atomically
from nsysoverlap.result.numbers import format_share

from .arms import find_arm
from .config import Config
from .errors import RefusedError
from .maxtext import remat_options
from .predictions import Prediction, off_by, ranking_accuracy, step_of
from .results import Row
from .search import StepModel, describe
from .tables import frontier, peak
from .toml_text import toml_text

COLUMNS = (
    "arm",
    "limit GiB",
    "step ms",
    "predicted ms",
    "off by",
    "naive off by",
    "in turns ms",
    "least – most",
    "off by",
    "peak GiB",
    "predicted GiB",
    "exposed ms",
    "of the step",
    "why not",
)
NOISE = 0.01
"""Steps nearer than this are not told apart."""
Rounds = Mapping[str, Sequence[float]]


def write_tune(
    folder: Path,
    config: Config,
    rows: Mapping[str, Row],
    predictions: Mapping[str, Prediction],
    rounds: Rounds,
    model: StepModel | None,
    *,
    maxtext: bool = False,
) -> str:
    """Write `tune.md`, `tune.json` and `toml/ARM.toml`; returns the Markdown."""
    text = tune_text(config, rows, predictions, rounds, model, maxtext=maxtext)
    write_atomically(folder / "tune.md", text)
    values = [
        {
            **row.to_dict(),
            "rounds_ms": list(rounds.get(row.arm, ())),
            "prediction": vars(predictions[row.arm]) if row.arm in predictions else None,
        }
        for row in rows.values()
    ]
    write_atomically(folder / "tune.json", json.dumps(values, indent=1) + "\n")
    (folder / "toml").mkdir(exist_ok=True)
    for name in config.arms:
        if name in rows:
            own = replace(config, arms={}, offload=find_arm(config, name).offload_of(config))
            write_atomically(folder / "toml" / f"{name}.toml", toml_text(own))
    return text


def tune_text(
    config: Config,
    rows: Mapping[str, Row],
    predictions: Mapping[str, Prediction],
    rounds: Rounds,
    model: StepModel | None,
    *,
    maxtext: bool = False,
) -> str:
    """The table, the answer for each limit, what was tried, and the tensors."""
    measured = {name: step_of(row, {}) for name, row in rows.items()}
    lines = [list(COLUMNS), ["---"] + ["---:"] * (len(COLUMNS) - 2) + ["---"]]
    every = list(rows.values())
    lines += [_cells(row, predictions.get(row.arm), rounds, every) for row in every]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    limits = sorted({p.limit_gib for p in predictions.values() if p.limit_gib})
    answers = "\n".join(f"- {_answer(limit, every, config, rounds)}" for limit in limits)
    options = maxtext_answers(limits, every, config) if maxtext else ""
    parts = [table, answers, options, _accuracy(predictions, measured), placements(config, rows)]
    if model is not None:
        parts.append(tensor_table(model))
    return "\n\n".join(part for part in parts if part) + "\n"


def _cells(
    row: Row, prediction: Prediction | None, rounds: Rounds, rows: Sequence[Row]
) -> list[str]:
    turns = rounds.get(row.arm, ())
    share = row.exposed_ms / row.step_ms if row.exposed_ms is not None and row.step_ms else None
    p = prediction or Prediction(row.arm, "", None)
    return [
        row.arm,
        _number(p.limit_gib),
        _number(row.step_ms),
        _number(p.step_ms),
        _percent(off_by(p.step_ms, row.step_ms)),
        _percent(off_by(p.naive_ms, row.step_ms)),
        _number(median(turns) if turns else None),
        f"{min(turns):.1f} – {max(turns):.1f}" if turns else "–",
        _percent(off_by(p.step_ms, median(turns) if turns else None)),
        _number(peak(row), 2),
        _number(p.peak_gib, 2),
        _number(row.exposed_ms),
        format_share(share),
        why_not(row, prediction, rows),
    ]


def why_not(row: Row, prediction: Prediction | None, rows: Sequence[Row]) -> str:
    """Why an arm is not the answer: it failed, is over its limit, or another is better."""
    if row.status != "ok":
        return f"**{row.status}**: {row.reason}"
    limit, size = prediction.limit_gib if prediction else None, peak(row)
    if limit is not None and size is not None and size > limit:
        return f"{size - limit:.2f} GiB over its limit"
    best, _ = frontier(rows)
    if row.arm in {one.arm for one in best}:
        return ""
    able = [r for r in rows if r.status == "ok" and r.step_ms and peak(r) is not None]
    better = [
        r
        for r in able
        if (r.step_ms or 0) <= (row.step_ms or 0) and (peak(r) or 0) <= (size or 0) and r != row
    ]
    if not better:
        return ""
    one = min(better, key=lambda r: r.step_ms or 0.0)
    text = f"{one.arm} takes {(row.step_ms or 0) - (one.step_ms or 0):.1f} ms less"
    return f"{text}; {row.exposed_ms:.1f} ms wait for copies" if row.exposed_ms else text


def within(limit: float, rows: Sequence[Row]) -> list[Row]:
    """The arms whose peak is within a limit, fastest first."""
    fits = [r for r in rows if r.status == "ok" and r.step_ms and (peak(r) or 1e9) <= limit]
    return sorted(fits, key=lambda row: row.step_ms or 0.0)


def maxtext_answers(limits: Sequence[float], rows: Sequence[Row], config: Config) -> str:
    """For each limit MaxText's options for the fastest arm that it can run."""
    lines = []
    for limit in limits:
        able = [r.arm for r in within(limit, rows) if find_arm(config, r.arm).keeps != "prefetch"]
        what = f"`{maxtext_line(config, able[0])}` ({able[0]})" if able else "nothing fits"
        lines.append(f"- MaxText, {limit:.1f} GiB: {what}")
    return "\n".join(lines)


def _answer(limit: float, rows: Sequence[Row], config: Config, rounds: Rounds) -> str:
    """The fastest arm within a limit, and whether that is a change."""
    fits = within(limit, rows)
    fixed = [row for row in fits if row.arm not in config.arms]
    if not fits:
        return f"{limit:.1f} GiB: nothing fits."
    one = fits[0]
    if not fixed:
        return f"{limit:.1f} GiB: {one.arm}, {one.step_ms:.1f} ms; no fixed arm fits."
    usual = fixed[0]
    won = 1 - (one.step_ms or 0.0) / (usual.step_ms or 1.0)
    if won < NOISE:
        return f"{limit:.1f} GiB: no change, {usual.arm} is as fast ({usual.step_ms:.1f} ms)."
    return (
        f"{limit:.1f} GiB: {one.arm}, {one.step_ms:.1f} ms and {peak(one):.2f} GiB, "
        f"{100 * won:.1f} % less time than {usual.arm} ({usual.step_ms:.1f} ms, "
        f"{peak(usual):.2f} GiB)." + _in_turns(one, usual, rounds)
    )


def _in_turns(one: Row, usual: Row, rounds: Rounds) -> str:
    """The same of the rounds, where both took turns."""
    if one.arm not in rounds or usual.arm not in rounds:
        return ""
    mine, others = median(rounds[one.arm]), median(rounds[usual.arm])
    return f" In turns {mine:.1f} against {others:.1f} ms: {100 * (1 - mine / others):.1f} %."


def _accuracy(predictions: Mapping[str, Prediction], measured: Mapping[str, float | None]) -> str:
    """How far predictions were off, how well they rank, and the same of the naive baseline."""
    ran = {name: p for name, p in predictions.items() if measured.get(name)}
    errors = [abs(off_by(p.step_ms, measured[n]) or 0) for n, p in ran.items() if p.step_ms]
    naive = [abs(off_by(p.naive_ms, measured[n]) or 0) for n, p in ran.items() if p.naive_ms]
    if not errors:
        return ""
    right = ranking_accuracy({n: p.step_ms for n, p in ran.items()}, measured)
    by_naive = ranking_accuracy({n: p.naive_ms for n, p in ran.items()}, measured)
    text = (
        f"Predictions of {len(errors)} arms, each written before the arm ran: step off by "
        f"{100 * median(errors):.1f} % (median; at most {100 * max(errors):.1f} %), pairs in the "
        f"right order {format_share(right)}."
    )
    if naive:
        text += (
            f" The same model with nothing waited for: {100 * median(naive):.1f} % (at most "
            f"{100 * max(naive):.1f} %), {format_share(by_naive)}."
        )
    return text


def placements(config: Config, rows: Mapping[str, Row]) -> str:
    """What each tuned arm keeps, and how MaxText would say it."""
    lines = []
    for name, values in config.arms.items():
        if name in rows:
            fields = {"host": {}, "device": {}, **values.get("offload", {})}
            lines.append(f"- `{name}`: {describe(fields)}. MaxText: {maxtext_line(config, name)}")
    return "\n".join(lines)


def maxtext_line(config: Config, name: str) -> str:
    """MaxText's options for an arm's tensors, or what of it MaxText cannot say."""
    try:
        options = remat_options(config, find_arm(config, name))
    except RefusedError as error:
        return error.message
    return " ".join(f"{key}={value}" for key, value in options.items())


def tensor_table(model: StepModel) -> str:
    """Tensors by GiB freed for each millisecond waited, were each to leave alone in all layers."""
    rows: list[tuple[float, list[str]]] = []
    for place, tensor in enumerate(model.tensors):
        counts = tuple((model.layers if n == place else 0, 0) for n in range(len(model.tensors)))
        gib = tensor.gb * 1e9 / (1 << 30) * (model.layers - 1)
        exposed = model.exposed_ms(counts)
        rate = gib / exposed if exposed > 0.05 else float("inf")
        cells = [
            tensor.name,
            f"{gib:.2f}",
            f"{tensor.again_ms * model.layers:.1f}",
            f"{tensor.gb * 1e3 / model.d2h_gbps:.1f} of {model.forward_ms:.1f}",
            f"{exposed:.1f}",
            "no wait" if rate == float("inf") else f"{rate:.2f}",
        ]
        rows.append((rate, cells))
    head = ["tensor", "GiB freed", "recompute ms", "copy ms of a layer's forward", "exposed ms"]
    head.append("GiB per exposed ms")
    order = sorted(rows, key=lambda row: -row[0])
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *(cells for _, cells in order)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:+.1f} %"
