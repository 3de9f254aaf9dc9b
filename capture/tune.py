"""`capture tune`: the fastest program for a memory limit, found by prediction and by running.

It measures `keep`, `remat` and fixed arms once, searches with a model of the step, lets XLA
compile what is best without running it, predicts from the compiled schedule, writes that down,
runs the few best, and searches again with what it learned.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nsysoverlap.core.output import write_atomically

from .arms import find_arm
from .config import Config
from .errors import RefusedError
from .launch import launch
from .learning import Calibration, calibrate, step_model
from .matrix import Plan, prepare, run_matrix, spec_of
from .maxtext import nameable
from .predictions import Prediction, read_predictions, write_predictions
from .results import Row, read_config, read_manifest
from .schedule import Replayed, read_schedule, replay, short_windows
from .search import Counts, StepModel, best, offload_fields
from .spec import HLO

FIXED = ("keep", "remat", "save", "prefetch")
ASSUMED_MS = 5.0
"""What XLA's scheduler takes any copy to last."""
TOLERANCE = 1e-3
MOST_LOOKS = 20_000
MARGIN_GIB = 0.2
LINK_SHARES = (1.0, 0.85, 0.7, 0.55)
MOST_EXPOSED = 0.02
"""Share of the step that may be waited for copies: more is a schedule on the edge."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Goal:
    """Memory limits in GiB; those of `above_remat` count from the peak of rematerialisation.

    With `frontier` three more between the peaks of `remat` and `keep`. With `maxtext` only programs
    that MaxText has options for: each tensor in one place in all layers, under a remat policy.
    """

    limits: tuple[float, ...] = ()
    above_remat: tuple[float, ...] = ()
    frontier: bool = False
    maxtext: bool = False

    def all(self, rows: Mapping[str, Row]) -> list[float]:
        """The limits, smallest first."""
        low, high = (rows[name].peak_gib or rows[name].planned_gib for name in ("remat", "keep"))
        if low is None or high is None:
            raise RefusedError("keep or remat has no peak.", "Give --memory in GiB.")
        found = [*self.limits, *(low + more for more in self.above_remat)]
        if self.frontier:
            found += [low + 1.0, *(low + (high - low) * n / 4 for n in (1, 2, 3))]
        return sorted(set(found))


def tune(config: Config, plan: Plan, goal: Goal, turns: int, say: Say) -> dict[str, Row]:
    """Run the search; returns all rows. What is done already is not done again."""
    if config.model.kind != "dense":
        raise RefusedError(
            f"{config.name}: tune knows dense models only; the layers of a sparse one are of two "
            "kinds.",
            "Describe programs as [arms.NAME] and compare them with matrix.",
        )
    config, began = with_known_arms(config, plan.folder), time.monotonic()
    rows = by_name(run_matrix(config, [find_arm(config, n) for n in FIXED], plan, say))
    for turn in range(turns):
        if not all(name in rows and rows[name].step_ms for name in ("keep", "remat")):
            raise RefusedError("keep and remat have to run first.", "See the log of each.")
        model = step_model(config, plan.folder, rows, tensors_of(config, maxtext=goal.maxtext))
        say(f"turn {turn + 1}: {len(model.tensors)} tensors, forward {model.forward_ms:.2f} ms")
        limits, taught = goal.all(rows), learned(model, plan.folder, rows)
        config, wanted = propose(config, taught, limits, maxtext=goal.maxtext)
        prepare(config, plan)
        fresh = [name for name in wanted if name not in read_predictions(plan.folder)]
        compiled = compile_arms(config, fresh, plan, say)
        calibration = calibrate(plan.folder, rows.values(), model.clock)
        new = [
            predict(config, name, wanted[name], compiled[name], calibration, model, plan.folder)
            for name in fresh
        ]
        write_predictions(plan.folder, new)
        for one in new:
            say(f"predicted {one.arm}: step {one.step_ms or 0:.1f} ms, {one.peak_gib or 0:.2f} GiB")
        chosen = [find_arm(config, name) for name in promising(new)]
        rows = by_name(run_matrix(config, chosen, rest_of(plan, began), say))
    return rows


def rest_of(plan: Plan, began: float) -> Plan:
    """The plan with what is left of its time."""
    if plan.budget_s is None:
        return plan
    return replace(plan, budget_s=max(0.0, plan.budget_s - (time.monotonic() - began)))


def by_name(rows: Iterable[Row]) -> dict[str, Row]:
    """Rows by arm."""
    return {row.arm: row for row in rows}


def with_known_arms(config: Config, folder: Path) -> Config:
    """The configuration with the arms that an earlier call has left in the folder."""
    if not (folder / "config.json").is_file():
        return config
    return replace(config, arms={**read_config(folder).arms, **config.arms})


def tensors_of(config: Config, *, maxtext: bool = False) -> list[str]:
    """Tensors of a layer that may be placed; the input of each layer is kept in any case."""
    names = [name for name in config.model.names if name != "decoder_layer_input"]
    return [name for name in names if not maxtext or nameable(config, name)]


def propose(
    config: Config, model: StepModel, limits: Sequence[float], *, maxtext: bool = False
) -> tuple[Config, dict[str, float]]:
    """The configuration with candidates as arms of its own, and the limit of each.

    For each limit the model's optimum, and its optimum were the link slower: XLA places copies
    by a time of its own, and what a full link really hides only the compiled schedule tells.
    """
    arms = dict(config.arms)
    wanted: dict[str, float] = {}
    for limit in limits:
        for share in LINK_SHARES:
            narrow = replace(
                model, d2h_gbps=model.d2h_gbps * share, h2d_gbps=model.h2d_gbps * share
            )
            tolerance = TOLERANCE * model.remat_ms
            room = limit - MARGIN_GIB
            counts = best(narrow, room, tolerance, MOST_LOOKS, alike=maxtext)
            values = own_values(model, counts, maxtext=maxtext)
            name = next((n for n, v in arms.items() if v == values), f"tuned-{len(arms) + 1}")
            arms[name] = values
            wanted.setdefault(name, limit)
    return replace(config, arms=arms), wanted


def own_values(model: StepModel, counts: Counts, *, maxtext: bool = False) -> dict[str, Any]:
    """A placement as an arm of one's own; with `maxtext` one that a remat policy makes."""
    fields = offload_fields(model, counts)
    if not fields["names"]:
        return {"like": "remat", "title": "everything computed again"}
    if maxtext:
        return {"like": "lhs" if fields["host"] else "save", "offload": fields}
    # Pieces of about what XLA assumes; a whole tensor where that is near, for cuts cost copies.
    piece = int(1.5 * ASSUMED_MS * model.d2h_gbps * 1e6) >> 20
    like = "prefetch" if fields["host"] else "save-tied"
    return {"like": like, "offload": {**fields, "piece_mib": max(1, piece), "ahead": model.ahead}}


def learned(model: StepModel, folder: Path, rows: Mapping[str, Row]) -> StepModel:
    """The model with what tuned arms showed: their peaks, and copies that did not hide."""
    known = [(p, rows[name]) for name, p in read_predictions(folder).items() if name in rows]
    ran = [(p, row) for p, row in known if row.status == "ok"]
    waits = [
        (row.exposed_ms or 0.0) > (p.exposed_ms or 0.0) + 0.01 * (row.step_ms or 0.0)
        for p, row in ran
    ]
    if waits and sum(waits) * 2 >= len(waits):
        model = replace(model, forward_ms=model.forward_ms * 0.92)
    over = [(row.peak_gib or 0.0) - p.limit_gib for p, row in ran if row.peak_gib and p.limit_gib]
    return replace(model, remat_gib=model.remat_gib + max(0.0, max(over, default=0.0)))


def compile_arms(
    config: Config, names: Sequence[str], plan: Plan, say: Say
) -> dict[str, dict[str, Any]]:
    """What XLA plans for arms that have not run, by arm; the programs are left in `compiled`."""
    if not names:
        return {}
    say(f"compiling {', '.join(names)}")
    folder = plan.folder / "compiled"
    spec = spec_of(config, find_arm(config, names[0]), plan, "compile")
    spec = replace(spec, folder=str(folder.resolve()), arms=tuple(names))
    outcome = launch(spec, None, plan.arm_timeout_s * len(names))
    if outcome.status != "ok":
        raise RefusedError(f"compiling: {outcome.status}: {outcome.reason}", "See its log.txt.")
    found: dict[str, dict[str, Any]] = (read_manifest(folder) or {})["compiled"]
    return found


def replay_of(folder: Path, name: str, calibration: Calibration) -> Replayed:
    """A compiled program with the durations that are known."""
    text = gzip.decompress((folder / "compiled" / f"{name}.{HLO}").read_bytes()).decode()
    return replay(read_schedule(text), calibration.costs, calibration.gbps)


def predict(
    config: Config,
    name: str,
    limit: float,
    compiled: Mapping[str, Any],
    calibration: Calibration | None,
    model: StepModel,
    folder: Path,
) -> Prediction:
    """The prediction of a candidate: by its compiled schedule, without recordings by the model."""
    counts = counts_of(model, config.arms[name])
    if compiled["status"] != "ok":
        return Prediction(name, "compiler: out of memory", None, limit_gib=limit)
    peak = compiled["planned_gib"] + (calibration.peak_gib if calibration else 0.0)
    shared = {"peak_gib": peak, "limit_gib": limit, "naive_ms": model.work_ms(counts)}
    if calibration is None:
        exposed = model.exposed_ms(counts)
        step = model.step_ms(counts)
        return Prediction(name, "model", step, exposed_ms=exposed, blind=True, **shared)
    replayed = replay_of(folder, name, calibration)
    return Prediction(
        name,
        "compiled schedule",
        calibration.step_of(replayed),
        exposed_ms=replayed.exposed_ms,
        known_share=replayed.known_share,
        short=short_windows(replayed),
        **shared,
    )


def counts_of(model: StepModel, values: Mapping[str, Any]) -> Counts:
    """The placement of an arm of one's own, in the model's terms."""
    from .config import layers_of

    offload = values.get("offload", {})

    def count(place: str, name: str) -> int:
        return len(layers_of(offload.get(place, {}).get(name, "")))

    return tuple((count("host", t.name), count("device", t.name)) for t in model.tensors)


def promising(predictions: Iterable[Prediction]) -> list[str]:
    """For each limit the fastest whose peak is within; first those that hardly wait for copies."""
    found: dict[float, Prediction] = {}
    for one in predictions:
        limit, peak = one.limit_gib or 0.0, one.peak_gib
        if one.step_ms is None or (peak is not None and peak > limit):
            continue
        if limit not in found or _rank(one) < _rank(found[limit]):
            found[limit] = one
    return [one.arm for one in found.values()]


def _rank(one: Prediction) -> tuple[bool, float]:
    step = one.step_ms or 0.0
    return (one.exposed_ms or 0.0) > MOST_EXPOSED * step, step


def take_turns(
    config: Config, names: Sequence[str], rounds: int, plan: Plan, say: Say
) -> dict[str, Any]:
    """Steps of arms that take turns in one process, by arm; kept in `rounds`."""
    folder = plan.folder / "rounds"
    kept = folder / "rounds.json"
    if kept.is_file():
        values: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        if set(names) <= set(values["rounds"]):
            return values
    say(f"{rounds} rounds of {', '.join(names)}")
    spec = spec_of(config, find_arm(config, names[0]), plan, "rounds")
    spec = replace(spec, folder=str(folder.resolve()), arms=tuple(names), rounds=rounds)
    outcome = launch(spec, None, plan.arm_timeout_s * (1 + len(names)))
    if outcome.status != "ok":
        say(f"rounds: {outcome.status}: {outcome.reason}")
        return {"rounds": {}, "clocks": {}}
    values = read_manifest(folder) or {}
    found = {key: values[key] for key in ("rounds", "clocks")}
    write_atomically(kept, json.dumps(found, indent=1) + "\n")
    return found


def to_dict(predictions: Iterable[Prediction]) -> list[dict[str, Any]]:
    """Plain data."""
    return [asdict(one) for one in predictions]
