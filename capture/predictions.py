"""Predictions, written to disk before the arm runs, and compared with it afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import median

from nsysoverlap.core.output import write_atomically

from .results import Row

FILE = "predictions.json"


@dataclass(frozen=True)
class Prediction:
    """What an arm is expected to do. Times in ms a step.

    `basis` says from what. `naive_ms` is the baseline: the arm it is derived from, or the model,
    with nothing waited for. `blind`: the program's schedule was not known when it was written.
    `judged`: the change leaves each copy its window, so the prediction has to hold; `inside` is the
    share of the windows that lies within those of the base. `whatif_ms` is what `nsysoverlap
    whatif` says of the base's recording, where it has such a question. `short` counts copies
    whose window is shorter than the copy. `written` is Unix time.
    """

    arm: str
    basis: str
    step_ms: float | None
    naive_ms: float | None = None
    exposed_ms: float | None = None
    peak_gib: float | None = None
    limit_gib: float | None = None
    known_share: float | None = None
    short: int | None = None
    blind: bool = False
    judged: bool = False
    inside: float | None = None
    whatif_ms: float | None = None
    whatif_exposed_ms: float | None = None
    written: float = 0.0


def read_predictions(folder: Path) -> dict[str, Prediction]:
    """The predictions of a folder by arm."""
    path = folder / FILE
    if not path.is_file():
        return {}
    values = json.loads(path.read_text(encoding="utf-8"))
    return {entry["arm"]: Prediction(**entry) for entry in values}


def write_predictions(folder: Path, new: Iterable[Prediction]) -> None:
    """Add predictions; one that is there already is never changed."""
    known = read_predictions(folder)
    for one in new:
        known.setdefault(one.arm, Prediction(**{**asdict(one), "written": time.time()}))
    text = json.dumps([asdict(one) for one in known.values()], indent=1)
    write_atomically(folder / FILE, text + "\n")


def ranking_accuracy(
    predicted: Mapping[str, float | None], measured: Mapping[str, float | None]
) -> float | None:
    """Share of the pairs of arms that are in the right order; None without pairs.

    Pairs whose measured steps are equal do not count.
    """
    names = [n for n in predicted if predicted[n] is not None and measured.get(n) is not None]
    right = pairs = 0
    for one, two in combinations(names, 2):
        real = (measured[one] or 0.0) - (measured[two] or 0.0)
        if real:
            pairs += 1
            right += ((predicted[one] or 0.0) - (predicted[two] or 0.0)) * real > 0
    return right / pairs if pairs else None


def off_by(predicted: float | None, measured: float | None) -> float | None:
    """Predicted over measured, less one."""
    return predicted / measured - 1 if predicted is not None and measured else None


def step_of(row: Row | None, rounds: Mapping[str, Sequence[float]]) -> float | None:
    """The measured step: the median of the rounds where the arm took turns, else of its own run."""
    if row is not None and (turns := rounds.get(row.arm)):
        return median(turns)
    return row.step_ms if row is not None and row.status == "ok" else None
