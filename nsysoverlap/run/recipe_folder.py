"""The folder that `nsys recipe` leaves, which holds results and says what they were made of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import TraceFileError
from ..trace.nsys_export import REPORT_SUFFIXES

_SUFFIX = ".nsys-analysis"
_KEYS = ("InputFiles", "Inputs")
_LARGEST = 16 << 20


def recipe_inputs(folder: Path, files: Sequence[Path]) -> list[Path]:
    """The reports, and their exports where they lie beside, that made the `files` of a folder.

    Empty for a folder that no recipe wrote. Raises `TraceFileError` where a report is gone.
    """
    found: list[Path] = []
    for name in (name for file in files if file.suffix == _SUFFIX for name in _named_in(file)):
        # Recipes note them as they were given, from the folder in which theirs was made.
        places = [folder.resolve().parent / name, Path(name)]
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            raise TraceFileError(
                f"{folder.resolve().name}: `nsys recipe` made it of {Path(name).name}, which is "
                "not there any more.",
                "Give the reports themselves.",
            )
        export = path.with_suffix(".sqlite")
        found += [path, *([export] if export.is_file() else [])]
    return list(dict.fromkeys(found))


def _named_in(file: Path) -> Iterator[str]:
    """Names of reports in the file by which a recipe describes its results."""
    try:
        with file.open("rb") as opened:
            content: Any = json.loads(opened.read(_LARGEST))
        names: Any = next((content[key] for key in _KEYS if key in content), [])
        yield from (n for n in names if isinstance(n, str) and n.lower().endswith(REPORT_SUFFIXES))
    except (OSError, ValueError, TypeError, RecursionError):
        # Anything else may be called so; then the folder holds no traces.
        return
