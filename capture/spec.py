"""What a worker process is told, as a JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .arms import Arm, find_arm
from .config import Config, config_from

HLO = "hlo.txt.gz"
"""Where a worker leaves the final program."""


@dataclass(frozen=True)
class Spec:
    """One run of one arm.

    `mode`: run, find-batch, check (options only), preflight and compile (`arms`; nothing is run),
    or rounds (`arms` take turns, `rounds` times). `folder`
    is where the worker writes; `shared` keeps caches that all arms of a matrix use. `profile` is
    a latency profile for XLA. `coordinator` is "host:port", or "auto" to take everything from
    Slurm; None for one process. `rank` and `processes` count from 0 and 1.
    """

    config: Config
    arm: str
    folder: str
    shared: str = ""
    mode: str = "run"
    trace: bool = False
    profile: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """XLA options on top of the arm's, asked for by the user."""
    coordinator: str | None = None
    processes: int = 1
    rank: int = 0
    arms: tuple[str, ...] = ()
    rounds: int = 5

    @property
    def the_arm(self) -> Arm:
        """The arm by its name."""
        return find_arm(self.config, self.arm)

    def write(self, path: Path) -> None:
        """Write the file that `read_spec` reads."""
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")


def read_spec(path: Path) -> Spec:
    """Read what `Spec.write` wrote."""
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Spec(
        **{**values, "config": config_from(values["config"]), "arms": tuple(values["arms"])}
    )


def ranked(name: str, rank: int, processes: int) -> str:
    """A file name of one rank; without a rank where there is only one process."""
    stem, dot, suffix = name.partition(".")
    return f"{stem}.rank{rank}{dot}{suffix}" if processes > 1 else name
