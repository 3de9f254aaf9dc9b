"""The manifest that a program may leave beside its trace: memory, which no trace holds.

`python -m capture` writes one for each recording; any program may, see docs/record.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMAT = "nsysoverlap.capture"
MOST_BYTES = 16 << 20
"""A manifest holds a few numbers; what is larger is something else."""
_PLAIN = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True)
class Manifest:
    """What a program left beside its trace in a file `name`: memory of one device, in bytes.

    `peak_bytes` is the most the allocator had in use, `planned_bytes` what the compiler asks for,
    `host_bytes` pinned memory; `control_peak_bytes` is the peak of `control`, the run with the same
    tensors kept on the device. None where not said. `problem` is why nothing could be read.
    """

    name: str
    peak_bytes: int | None = None
    planned_bytes: int | None = None
    host_bytes: int | None = None
    control: str | None = None
    control_peak_bytes: int | None = None
    problem: str = ""


def manifest_beside(path: Path) -> Manifest | None:
    """What the manifest of a trace says; None where there is none.

    For `NAME.sqlite` that is `NAME.manifest.json` or `manifest.NAME.json`, for `trace.sqlite` also
    `manifest.json`. A file that cannot be understood is said to be so by `problem`.
    """
    stem = path.stem
    names = [f"{stem}.manifest.json", f"manifest.{stem}.json"]
    if stem == "trace":
        names.append("manifest.json")
    # A name that no file can have, such as one too long, is an `OSError` of `is_file`.
    with suppress(OSError):
        return _first_of(names, path.parent)
    return None


def _first_of(names: Sequence[str], folder: Path) -> Manifest | None:
    found = next((n for n in names if (folder / n).is_file()), None)
    if found is None:
        return None
    values = _read(folder / found)
    if values is None:
        return Manifest(found, problem="is no JSON object")
    if found == "manifest.json" and values.get("format") != FORMAT:
        # A common name, which other programs use too.
        return None
    return _understood(found, values, folder)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > MOST_BYTES:
            return None
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _understood(name: str, values: Mapping[str, Any], folder: Path) -> Manifest:
    memory = values.get("memory")
    if values.get("status", "ok") != "ok":
        # The program ended before it could say, or before its peak.
        return Manifest(name)
    if not isinstance(memory, dict):
        return Manifest(name, problem='has no object "memory"')
    keys = ("peak_gib", "planned_gib", "host_gib", "control_peak_gib")
    sizes = {key: memory[key] for key in keys if memory.get(key) is not None}
    wrong = sorted(key for key, size in sizes.items() if not _is_size(size, some=key != "host_gib"))
    if wrong:
        return Manifest(name, problem=f"says {wrong[0]} is {str(sizes[wrong[0]])[:40]!r}, no size")
    peak, planned, host, control = (_bytes(sizes.get(key)) for key in keys)
    known = values.get("control")
    title = known if isinstance(known, str) and _PLAIN.fullmatch(known) else None
    if control is None and title is not None:
        control = _peak_of(folder.parent / title / name)
    return Manifest(name, peak, planned, host, title, control)


def _peak_of(path: Path) -> int | None:
    """The peak that the manifest of the control says, which `capture` leaves in the next folder."""
    memory = (_read(path) or {}).get("memory")
    size = memory.get("peak_gib") if isinstance(memory, dict) else None
    return _bytes(size) if _is_size(size) else None


def _is_size(value: Any, *, some: bool = True) -> bool:
    """Whether that is a number of GiB; with `some` of a byte at least."""
    # A comparison takes whole numbers of any size, and no NaN.
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 <= value < 1e6 and not (some and round(value * (1 << 30)) == 0)


def _bytes(gib: float | None) -> int | None:
    return None if gib is None else round(gib * (1 << 30))
