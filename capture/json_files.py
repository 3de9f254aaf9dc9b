"""Reading what a run left; a file that is broken or not there is an error of one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .errors import CaptureError


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file. Raises `CaptureError` for a file that is missing or holds none."""
    name = f"{path.parent.name}/{path.name}"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CaptureError(
            f"{name}: cannot be read ({error.strerror}).",
            "Give a results folder of `python -m capture`.",
        ) from None
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise CaptureError(
            f"{name}: holds no JSON object; it is damaged.", "Remove it and run that arm again."
        )
    return values
