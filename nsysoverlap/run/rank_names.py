"""Which rank a trace is of: by its name, by the traced program's environment, or by its set."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..core.errors import TraceFileError

# More digits than an integer of a database holds are no rank.
_RANK = re.compile(r"(?:^|[^a-z])(?:rank|procid|proc)[._-]?(\d{1,18})(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\da-zA-Z])(\d{1,18})(?![\da-zA-Z])")
VARIABLES = (
    *("JAX_PROCESS_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK"),
)
"""Environment variables that launchers set to the rank, the most specific first."""


def rank_of(file_name: str) -> int | None:
    """Rank in a name such as `train_rank3.sqlite` or `rank3/trace.sqlite`; None without one.

    The file's own name comes before that of its folder.
    """
    found = (_RANK.search(part) for part in reversed(Path(file_name).parts))
    return next((int(match[1]) for match in found if match), None)


def rank_in(capture: Mapping[str, str]) -> int | None:
    """Rank in the environment that a trace recorded; None where it names none, or several."""
    values = (capture.get(name, "") for name in VARIABLES)
    return next((int(value) for value in values if _NUMBER.fullmatch(value)), None)


def own_rank(file_name: str, capture: Mapping[str, str]) -> int | None:
    """Rank that a trace's own name tells, or else its environment."""
    rank = rank_of(file_name)
    return rank_in(capture) if rank is None else rank


def ranks_of(file_names: Sequence[str]) -> list[int | None]:
    """The rank of each file as its name tells it, by itself or beside the others."""
    ranks = [rank_of(name) for name in file_names]
    if any(rank is not None for rank in ranks):
        return ranks
    different = ranks_by_difference(file_names)
    return [different.get(name) for name in file_names]


def ranks_by_difference(file_names: Sequence[str]) -> dict[str, int]:
    """Ranks of files named alike but for one number, as `nsys -o run.%q{SLURM_PROCID}` makes them.

    Empty where names differ otherwise, or in more than one number.
    """
    numbers = [_NUMBER.findall(Path(name).stem) for name in file_names]
    templates = {_NUMBER.sub("#", Path(name).stem) for name in file_names}
    if len(file_names) < 2 or len(templates) > 1:
        return {}
    varying = [values for values in zip(*numbers, strict=True) if len(set(values)) > 1]
    if len(varying) != 1 or len({int(value) for value in varying[0]}) < len(file_names):
        return {}
    return {name: int(value) for name, value in zip(file_names, varying[0], strict=True)}


def check_distinct(ranks: Sequence[tuple[str, int | None]]) -> None:
    """Raise `TraceFileError` where two files are of the same rank."""
    seen: dict[int, str] = {}
    for name, rank in ranks:
        if rank is None:
            continue
        if rank in seen:
            raise TraceFileError(
                f"{seen[rank]} and {name}: both are rank {rank}.",
                "Give the traces of one run only, or rename one; "
                "`nsysoverlap compare A B` sets two runs side by side.",
            )
        seen[rank] = name
