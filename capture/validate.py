"""`capture validate`: programs changed on purpose, each predicted before it runs.

The base is the `prefetch` program of the configuration. With what it, `keep` and `remat` took,
every other arm is predicted from the schedule that XLA compiled for it; only then does it run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import nsysoverlap
from nsysoverlap.core.errors import NsysOverlapError
from nsysoverlap.result.numbers import format_share

from .arms import find_arm
from .config import Config, layer_text
from .errors import RefusedError
from .learning import Calibration, calibrate, read_recorded
from .matrix import Plan, prepare, run_matrix
from .overlap import trace_files
from .predictions import (
    Prediction,
    off_by,
    ranking_accuracy,
    read_predictions,
    step_of,
    write_predictions,
)
from .results import Row, load_rows
from .schedule import Replayed, outside, replay, short_windows
from .tables import peak
from .tune import Say, by_name, compile_arms, replay_of, rest_of, with_known_arms

BASES = ("keep", "remat", "prefetch")
SYNC_LAG_MS = 1.0
"""What a host that waits for each step adds to it: measured on seven recordings."""
JUDGED = ("copies-", "casts-", "kept-", "every-second", "save-tied", "awaited", "beside")
"""Changes that leave each copy its window: more or fewer bytes in it, or no copy at all."""
CLOCK = 0.37
QUESTIONS: Mapping[str, Mapping[str, Any]] = {
    "copies-2": {"link": "0.5x"},
    "copies-3": {"link": "0.3333x"},
    "casts-half": {"n_bytes": "0.5"},
    "casts-double": {"link": "0.5x"},
    "save-tied": {"drop": "."},
}
"""What `whatif` is asked of the base's recording for an arm; casts are unknown to it."""
PLAIN = ("save", "save-tied", "lhs", "offload", "published", "offload-control", "optimizer")
COLUMNS = (
    "arm",
    "change",
    "step ms",
    "in turns ms",
    "least – most",
    "predicted ms",
    "off by",
    "in turns off by",
    "naive off by",
    "whatif ms",
    "off by",
    "exposed ms",
    "predicted ms",
    "whatif ms",
    "peak GiB",
    "predicted GiB",
    "same windows",
    "verdict",
)


def changes(config: Config) -> dict[str, dict[str, Any]]:
    """Arms of one's own by name: one change each against `prefetch`."""
    layers, offload = config.model.layers, config.offload
    first = offload.names[0]

    def changed(title: str, like: str = "prefetch", waits: bool = False, **fields: Any) -> Any:
        return {"like": like, "title": title, "offload": fields, "waits": waits}

    def also(title: str, like: str = "prefetch") -> Any:
        return {"like": like, "title": title, "beside": True}

    def kept(n_away: int) -> dict[str, Any]:
        away, stays = range(n_away), range(n_away, layers)
        return {
            "host": dict.fromkeys(offload.names, layer_text(away)),
            "device": dict.fromkeys(offload.names, layer_text(stays)),
        }

    small, whole = max(1, offload.piece_mib // 2), offload.piece_mib * 4
    found = {
        "copies-2": changed("each copy twice: the link at half", copies=2),
        "copies-3": changed("each copy three times: the link at a third", copies=3),
        "casts-half-alone": changed("casts to half, no copies", "save-tied", cast="float8_e4m3fn"),
        "casts-half": changed("half the bytes, with casts", cast="float8_e4m3fn"),
        "casts-double-alone": changed("casts to double, no copies", "save-tied", cast="float32"),
        "casts-double": changed("twice the bytes, with casts", cast="float32"),
        "ahead-1": changed("reloads one layer ahead", ahead=1),
        "ahead-3": changed("reloads three layers ahead", ahead=3),
        "ahead-4": changed("reloads four layers ahead", ahead=4),
        "kept-quarter": changed("a quarter of the layers stays", **kept(layers - layers // 4)),
        "kept-half": changed("half of the layers stays", **kept(layers // 2)),
        "kept-most": changed("all but two layers stay", **kept(2)),
        "every-second": changed(
            "every second layer leaves",
            host={first: layer_text(range(0, layers, 2))},
            device={first: layer_text(range(1, layers, 2))},
        ),
        "pieces-small": changed("pieces half as large", piece_mib=small),
        "pieces-whole": changed("pieces four times as large", piece_mib=whole),
        "awaited": changed("the host waits for each step", waits=True),
        "awaited-alone": changed("no copies, awaited", "save-tied", waits=True),
        "beside": also("a second GPU copies at once"),
        "beside-alone": also("a second GPU at once, no copies", "save-tied"),
    }
    for name in config.model.names:
        if name in ("context", "mlpwi_0", "out_proj") and name not in offload.names:
            found[f"also-{name.replace('_', '-')}"] = changed(
                f"{name} leaves as well", names=[*offload.names, name]
            )
    return {n: {k: v for k, v in values.items() if v} for n, values in found.items()}


def validate(
    config: Config, plan: Plan, names: Sequence[str], say: Say
) -> tuple[Config, dict[str, Row]]:
    """Run the bases, write predictions of all other arms, run those; returns all rows."""
    config, began = with_known_arms(config, plan.folder), time.monotonic()
    config = replace(config, arms={**changes(config), **config.arms})
    every = sorted((*config.arms, *PLAIN), key=lambda name: not name.startswith(JUDGED))
    wanted = [name for name in names or every if name not in BASES]
    for name in wanted:
        find_arm(config, name)
    rows = by_name(run_matrix(config, [find_arm(config, n) for n in BASES], plan, say))
    prepare(config, plan)
    fresh = [name for name in wanted if name not in read_predictions(plan.folder)]
    calibration = calibrate(plan.folder, rows.values(), CLOCK)
    compiled = compile_arms(config, fresh, plan, say) if calibration else {}
    new = [predict_change(config, n, compiled.get(n), calibration, plan, rows) for n in fresh]
    write_predictions(plan.folder, new)
    for one in new:
        say(f"predicted {one.arm}: step {one.step_ms or 0:.1f} ms, waits {one.exposed_ms or 0:.1f}")
    run_matrix(config, [find_arm(config, name) for name in wanted], rest_of(plan, began), say)
    return config, by_name(load_rows(plan.folder))


def predict_change(
    config: Config,
    name: str,
    compiled: Mapping[str, Any] | None,
    calibration: Calibration | None,
    plan: Plan,
    rows: Mapping[str, Row],
) -> Prediction:
    """The prediction of an arm from its compiled schedule; without recordings there is none."""
    base = rows.get("prefetch")
    if calibration is None or compiled is None or compiled["status"] != "ok":
        return Prediction(name, "none: nothing was recorded, or no program", None, blind=True)
    naive = None
    if base is not None and base.step_ms is not None and base.exposed_ms is not None:
        naive = base.step_ms - base.exposed_ms
    peak_gib = compiled["planned_gib"] + calibration.peak_gib
    try:
        replayed = replay_of(plan.folder, name, calibration)
    except RefusedError as error:
        return Prediction(name, error.message, None, naive, peak_gib=peak_gib, blind=True)
    step = calibration.step_of(replayed)
    return Prediction(
        name,
        "compiled schedule",
        step + SYNC_LAG_MS if find_arm(config, name).waits else step,
        naive_ms=naive,
        exposed_ms=replayed.exposed_ms,
        peak_gib=peak_gib,
        known_share=replayed.known_share,
        short=short_windows(replayed),
        judged=name.startswith(JUDGED),
        inside=_inside(replayed, calibration, plan),
        **_whatif(name, base, plan),
    )


def _whatif(name: str, base: Row | None, plan: Plan) -> dict[str, Any]:
    """The replay of the base's recording with the change, by the clock law; {} where none."""
    traces = trace_files(plan.folder / "prefetch")
    if name not in QUESTIONS or not traces or base is None or base.step_ms is None:
        return {}
    try:
        answer = nsysoverlap.whatif(traces[0], **QUESTIONS[name])
    except NsysOverlapError:
        return {}
    if answer.now is None or not answer.scenarios or not answer.now.step_ns:
        return {}
    (one,) = answer.scenarios[:1]
    return {
        "whatif_ms": base.step_ms * one.step_low_ns / answer.now.step_ns,
        "whatif_exposed_ms": one.both.exposed_ns / 1e6,
    }


def _inside(replayed: Replayed, calibration: Calibration, plan: Plan) -> float | None:
    """The share of the windows that the base has too."""
    base = read_recorded(plan.folder, "prefetch")
    if base is None or not any(replayed.windows.values()):
        return None
    usual = replay(list(base.ops), calibration.costs, calibration.gbps)
    return 1 - outside(replayed, usual)


def validate_text(
    config: Config,
    rows: Mapping[str, Row],
    predictions: Mapping[str, Prediction],
    rounds: Mapping[str, Sequence[float]],
) -> str:
    """The table with every arm, and how often the predictions held."""
    measured = {name: step_of(row, rounds) for name, row in rows.items()}
    lines = [list(COLUMNS), ["---", "---"] + ["---:"] * 15 + ["---"]]
    for name, row in rows.items():
        lines.append(_cells(row, predictions.get(name), measured[name], rounds.get(name, ())))
    missing = [f"`{name}`" for name in predictions if name not in rows]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    text = f"{table}\n\n{_verdict(rows, predictions, measured)}\n"
    return text + (f"\nPredicted and not run: {', '.join(missing)}.\n" if missing else "")


def _cells(
    row: Row, prediction: Prediction | None, step: float | None, turns: Sequence[float]
) -> list[str]:
    p = prediction or Prediction(row.arm, "", None)
    return [
        row.arm,
        row.title,
        _number(row.step_ms),
        _number(step if turns else None),
        f"{min(turns):.1f} – {max(turns):.1f}" if turns else "–",
        _number(p.step_ms),
        _percent(off_by(p.step_ms, row.step_ms)),
        _percent(off_by(p.step_ms, step if turns else None)),
        _percent(off_by(p.naive_ms, step)),
        _number(p.whatif_ms),
        _percent(off_by(p.whatif_ms, step)),
        _number(row.exposed_ms),
        _number(p.exposed_ms),
        _number(p.whatif_exposed_ms),
        _number(peak(row), 2),
        _number(p.peak_gib, 2),
        format_share(p.inside),
        _judged(row, prediction, step),
    ]


def _judged(row: Row, prediction: Prediction | None, step: float | None) -> str:
    if row.status != "ok":
        return f"**{row.status}**: {row.reason}"
    if prediction is None:
        return "base"
    held = holds(row, prediction, step)
    return "not judged" if held is None else "held" if held else "**missed**"


def holds(row: Row, prediction: Prediction, step: float | None) -> bool | None:
    """Step within 2 % and exposed time within 5 ms; None where that is not asked."""
    error = off_by(prediction.step_ms, step)
    if error is None or not prediction.judged or row.exposed_ms is None:
        return None
    return abs(error) <= 0.02 and abs((prediction.exposed_ms or 0.0) - row.exposed_ms) <= 5.0


def _verdict(
    rows: Mapping[str, Row],
    predictions: Mapping[str, Prediction],
    measured: Mapping[str, float | None],
) -> str:
    ran = {n: p for n, p in predictions.items() if n in rows and measured[n] is not None}
    held = [holds(rows[n], p, measured[n]) for n, p in ran.items()]
    judged = [verdict for verdict in held if verdict is not None]
    near = [
        abs(off_by(p.step_ms, measured[n]) or 0.0) <= 0.02
        for n, p in ran.items()
        if p.judged and p.step_ms is not None
    ]
    right = ranking_accuracy({n: p.step_ms for n, p in ran.items()}, measured)
    naive = ranking_accuracy({n: p.naive_ms for n, p in ran.items()}, measured)
    return (
        f"{len(ran)} arms were predicted before they ran. Of those judged: step "
        f"within 2 % in {sum(near)} of {len(near)}, step and exposed time (5 ms) in {sum(judged)} "
        f"of {len(judged)}. Pairs in the right order: {format_share(right)}; by the naive "
        f"baseline, which is one number for all, {format_share(naive)}."
    )


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:+.1f} %"
