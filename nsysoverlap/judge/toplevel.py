"""`gate`, `compare`, `record` and `history` for Python users: traces or reports in, results out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace as changed
from datetime import datetime
from pathlib import Path
from typing import Any

from ..core.errors import InconclusiveError, NsysOverlapError, TraceFileError, UsageError
from ..core.json_model import plain
from ..result.model import OverlapReport
from ..run.analysis import Options
from ..run.sources import Source, analyze, measuring, read_source
from ..steps.plan import StepSpec
from . import comparison, history_store
from .baseline import read_baseline, unfit_reason
from .baseline import write_baseline as write_report
from .evaluate import Reference, judge, judge_nothing
from .history_store import Recorded, Trend, content_hash, parse_labels, read_runs
from .history_trend import matching_runs
from .thresholds import ANY_TRANSFERS, KEYS, Thresholds, build_thresholds
from .verdicts import Verdicts

Limit = str | int | float
"""As on the command line: 90 or "90%" for percent, 12 or "12ms" for times, "8GiB" for sizes."""


def gate(
    source: Source | OverlapReport,
    *require: str,
    require_transfers: bool | Limit = False,
    min_hidden: Limit | None = None,
    min_hidden_h2d: Limit | None = None,
    min_hidden_d2h: Limit | None = None,
    min_covered: Limit | None = None,
    min_relief: Limit | None = None,
    max_exposed_ms: Limit | None = None,
    max_gain_ms: Limit | None = None,
    max_peak_gib: Limit | None = None,
    max_drop: Limit | None = None,
    max_exposed_growth: Limit | None = None,
    confidence: Limit | None = None,
    baseline: str | Path | None = None,
    history: str | Path | None = None,
    labels: Mapping[str, str] | None = None,
    last: int = 20,
    write_baseline: str | Path | None = None,
    ranks: str | int | None = None,
    accept: Sequence[str] = (),
    steps: str = "auto",
    skip_steps: int = 0,
) -> Verdicts:
    """Hold a report, or traces that are measured first, against limits, as `nsysoverlap gate` does.

    `require` are texts such as `"h2d.hidden@worst-rank >= 60%"`, the other limits the options of
    docs/gate.md. `baseline` or `history` is what relative limits compare with; `labels` and `last`
    choose runs of the history. `write_baseline` is written where all limits are met, or where none
    is given and the traces can be trusted. `ranks`, `accept`, `steps` and `skip_steps` are for
    traces. A trace that cannot be read leaves the verdict inconclusive. Raises `UsageError` for
    limits that make no sense, `ConfigError` for a baseline or history that cannot be read.
    """
    # The names of the parameters are those of the options.
    given = {name: value for name, value in locals().items() if name in KEYS}
    thresholds = build_thresholds({**_texts(given), "baseline": baseline})
    comparing = thresholds.baseline is not None or history is not None
    asked = bool(thresholds.requirements or thresholds.max_gain or comparing)
    _check(thresholds, history, asked or write_baseline is not None)
    reference: Reference | None = None
    if thresholds.baseline is not None:
        reference = read_baseline(thresholds.baseline)
    options = measuring(steps=StepSpec(steps, skip_steps), accept=accept)
    try:
        report, errors, paths = _read(source, options, ranks)
    except TraceFileError as error:
        return judge_nothing(thresholds, str(error))
    if history is not None:
        content = content_hash(paths) if paths else ""
        chosen = labels or {}
        reference = matching_runs(Path(history), report, labels=chosen, last=last, content=content)
    result = judge(report, thresholds, reference, list(map(str, errors)))
    if not asked:
        result = _fit(result, report)
    if write_baseline is not None and not result.blockers and (result.passed or not asked):
        write_report(Path(write_baseline), report)
    return result


def _texts(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Limits as they would be typed."""
    texts = {k: v if k == "require" else str(v) for k, v in limits.items() if v is not None}
    transfers = limits["require_transfers"]
    if isinstance(transfers, bool):
        texts["require_transfers"] = ANY_TRANSFERS if transfers else None
    return texts


def _check(thresholds: Thresholds, history: str | Path | None, asked: bool) -> None:
    if thresholds.baseline is not None and history is not None:
        raise UsageError("baseline and history exclude each other.", "Give one of them.")
    if thresholds.relative and thresholds.baseline is None and history is None:
        raise UsageError("A relative limit needs something to compare with.", "Give baseline.")
    if not asked:
        raise UsageError("There is nothing to check.", "Give a limit such as min_hidden=90.")


def _read(
    source: Source | OverlapReport, options: Options, ranks: str | int | None
) -> tuple[OverlapReport, list[NsysOverlapError], list[Path]]:
    if isinstance(source, OverlapReport):
        return source, [], []
    report, errors, paths = read_source(source, options, ranks=ranks)
    return report, errors, [path for path in paths if path.is_file()]


def _fit(result: Verdicts, report: OverlapReport) -> Verdicts:
    """Of a gate without limits: whether a baseline can be made of the report."""
    blockers = tuple(text for text in result.blockers if text != "There was nothing to compare.")
    reason = unfit_reason(report)
    if reason is not None and not blockers:
        blockers = (reason,)
    return changed(result, blockers=blockers)


def compare(
    a: Source | OverlapReport,
    b: Source | OverlapReport,
    names: tuple[str, str] = ("A", "B"),
    *,
    steps: str = "auto",
    skip_steps: int = 0,
) -> comparison.Comparison:
    """What changed from A to B: each a report, traces, or the path of a JSON report or baseline.

    `steps` and `skip_steps` are for traces. Raises what `analyze` does.
    """
    one, other = (_report(side, steps, skip_steps) for side in (a, b))
    return comparison.compare(one, other, names)


def _report(side: Source | OverlapReport, steps: str, skip_steps: int) -> OverlapReport:
    if isinstance(side, OverlapReport):
        return side
    if isinstance(side, str | Path) and Path(side).suffix.lower() == ".json":
        return read_baseline(Path(side)).report
    return analyze(side, steps=steps, skip_steps=skip_steps)


def record(
    source: Source | OverlapReport,
    db: str | Path,
    *,
    labels: Mapping[str, str] | None = None,
    replace: bool = False,
    content: str | None = None,
    now: datetime | None = None,
    steps: str = "auto",
    skip_steps: int = 0,
) -> Recorded:
    """Store a run in the history `db`, an SQLite file that is made where there is none.

    The same `content` is stored once: by default what the files hold, or of a report or a `Trace`
    what was measured. `now` is when it ran, by default the present. `steps` and `skip_steps` are
    for traces. Raises `InconclusiveError` for what cannot be trusted, and stores nothing then.
    """
    for key, value in (labels or {}).items():
        parse_labels([f"{key}={value}"])
    options = measuring(steps=StepSpec(steps, skip_steps))
    report, errors, paths = _read(source, options, None)
    if errors:
        raise errors[0]
    for entry in report.health:
        if entry.severity == "error":
            raise InconclusiveError(entry.message, f"{entry.hint} Nothing was stored.".lstrip())
    if content is None and paths:
        content = content_hash(paths)
    elif content is None:
        content = hashlib.sha256(json.dumps(plain(report)).encode()).hexdigest()
    return history_store.record(Path(db), report, content, labels or {}, replace=replace, now=now)


def history(
    db: str | Path,
    *,
    labels: Mapping[str, str] | None = None,
    search: str | None = None,
    last: int | None = None,
) -> Trend:
    """The recorded runs with these labels, oldest first; `last` so many of them.

    `search` are words to find in labels. Raises `ConfigError` for a file that is no history.
    """
    runs = read_runs(Path(db), labels, search)
    return Trend(Path(db).name, tuple(runs[-last:] if last else runs))
