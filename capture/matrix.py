"""All arms of a configuration, each in a fresh process, with results written as they come."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nsysoverlap.core.errors import NsysOverlapError
from nsysoverlap.core.output import write_atomically

from . import nsys, pgle
from .arms import Arm, find_arm
from .companion import companion, two_gpus
from .config import Config
from .errors import CaptureError, RefusedError
from .json_files import read_json
from .launch import Outcome, launch
from .overlap import analyze_folder
from .results import Row, is_done, load_rows, write_outcome
from .spec import Spec, ranked
from .tables import write_results

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How to run arms: where to, with which nsys (None: no recording), and for how long."""

    folder: Path
    nsys: Path | None
    libraries: Path | None = None
    arm_timeout_s: float = 300.0
    budget_s: float | None = None
    coordinator: str | None = None
    processes: int = 1
    rank: int = 0
    options: tuple[tuple[str, str], ...] = ()


def run_matrix(config: Config, arms: Sequence[Arm], plan: Plan, say: Say) -> list[Row]:
    """Run the arms that have no result in the folder yet; returns the rows of all that have.

    An arm is not started when its predecessors' mean duration no longer fits into `budget_s`.
    Import, export and analysis of a recording run beside the next arm.
    """
    prepare(config, plan)
    began = time.monotonic()
    done: list[float] = []
    with _beside() as pool:
        pending: list[tuple[Arm, Future[None]]] = []
        for number, arm in enumerate(arms, 1):
            if is_done(plan.folder / arm.name):
                say(f"{number}/{len(arms)} {arm.name}: has a result already")
                continue
            needed = sum(done) / len(done) if done else 0.0
            if plan.budget_s is not None and time.monotonic() - began + needed > plan.budget_s:
                say(f"time budget spent; not run: {', '.join(a.name for a in arms[number - 1 :])}")
                break
            if arm.profile_from:
                _wait(pending)
            at = time.monotonic()
            outcome = run_arm(config, arm, plan)
            done.append(time.monotonic() - at)
            say(
                f"{number}/{len(arms)} {arm.name}: {outcome.status} {outcome.reason} "
                f"({done[-1]:.0f} s)"
            )
            if outcome.status != "skipped":
                pending.append((arm, pool.submit(finish_arm, config, arm, plan, outcome)))
        _wait(pending)
    rows = load_rows(plan.folder)
    write_results(plan.folder, rows)
    return rows


@contextmanager
def _beside() -> Iterator[ThreadPoolExecutor]:
    """A thread; where the block is broken off, it ends what it has begun and begins no more."""
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _wait(pending: list[tuple[Arm, Future[None]]]) -> None:
    while pending:
        pending.pop(0)[1].result()


def prepare(config: Config, plan: Plan) -> None:
    """Make the results folder. Raises `RefusedError` for one that holds another configuration."""
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RefusedError(
            f"--out {plan.folder.name}: cannot be a folder ({error.strerror}).", "Give another."
        ) from None
    path = plan.folder / "config.json"
    text = json.dumps(config.to_dict(), indent=1) + "\n"
    if path.is_file() and _without_arms(read_json(path)) != _without_arms(json.loads(text)):
        raise RefusedError(
            f"{plan.folder.name}: holds results of another configuration.",
            "Give another folder, or remove this one.",
        )
    write_atomically(path, text)


def _without_arms(values: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration but for the arms of its own, which may be added to."""
    return {key: value for key, value in values.items() if key != "arms"}


def spec_of(config: Config, arm: Arm, plan: Plan, mode: str = "run") -> Spec:
    """The worker's orders for an arm."""
    folder = (plan.folder / arm.name).resolve()
    return Spec(
        config=config,
        arm=arm.name,
        folder=str(folder),
        shared=str((plan.folder / "shared").resolve()),
        mode=mode,
        trace=plan.nsys is not None and mode == "run",
        options=dict(plan.options),
        coordinator=plan.coordinator,
        processes=plan.processes,
        rank=plan.rank,
    )


def run_arm(config: Config, arm: Arm, plan: Plan) -> Outcome:
    """Run one arm in a fresh process; writes nothing but what the worker writes."""
    spec = spec_of(config, arm, plan)
    if arm.profile_from:
        stem = "rank0" if plan.processes > 1 else "trace"
        source = plan.folder / arm.profile_from / f"{stem}.sqlite"
        if not source.is_file():
            return Outcome("skipped", f"needs the recording of {arm.profile_from}")
        target = Path(spec.folder, "profile.pbtxt")
        target.parent.mkdir(parents=True, exist_ok=True)
        pgle.write_profile(source, target, config.recording.traced)
        spec = replace(spec, profile=str(target))
    recorder = plan.nsys if spec.trace else None
    if not arm.beside:
        return launch(spec, recorder, plan.arm_timeout_s)
    gpus = two_gpus(os.environ)
    if gpus is None or config.training.fsdp > 1:
        return Outcome("skipped", "needs a second GPU on this host, and a program on one (fsdp 1)")
    mine, other = ({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {} for gpu in gpus)
    try:
        with companion(spec, other, plan.arm_timeout_s):
            # With both in sight JAX would take the memory of both.
            return launch(spec, recorder, plan.arm_timeout_s, mine)
    except CaptureError as error:
        return Outcome("failed", error.message)


def finish_arm(config: Config, arm: Arm, plan: Plan, outcome: Outcome) -> None:
    """Import, export and measure the recording, then leave the outcome and the tables so far.

    One of several ranks leaves its outcome and its export, no more: the others may not be done.
    """
    folder = plan.folder / arm.name
    folder.mkdir(parents=True, exist_ok=True)
    status, reason = outcome.status, outcome.reason
    alone = plan.processes == 1
    if outcome.trace is not None and plan.nsys is not None:
        try:
            nsys.finish(plan.nsys, outcome.trace, plan.libraries)
            if alone:
                analyze_folder(folder)
        except NsysOverlapError as error:
            status, reason = "void", f"{reason} {error}".strip()
    write_outcome(folder, status, reason, rank=None if alone else plan.rank)
    shutil.rmtree(folder / ranked("xla", plan.rank, plan.processes), ignore_errors=True)
    if alone:
        write_results(plan.folder, load_rows(plan.folder))


def check_all(config: Config, arms: Sequence[Arm], plan: Plan) -> None:
    """Refuse unknown XLA options of any arm before the first one runs."""
    options: dict[str, str] = {}
    for arm in arms:
        options |= arm.options
    arm = find_arm(config, "keep")
    spec = replace(spec_of(config, arm, plan, "check"), options={**options, **dict(plan.options)})
    spec = replace(spec, folder=str((plan.folder / "shared").resolve()), coordinator=None)
    outcome = launch(spec, None, plan.arm_timeout_s)
    if outcome.status != "ok":
        raise RefusedError(outcome.reason, "Nothing was run.")
