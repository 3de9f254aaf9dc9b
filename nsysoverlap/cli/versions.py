"""What `nsysoverlap --version` prints: the versions that a report of a problem should name."""

from __future__ import annotations

import platform
import re
import sqlite3
from importlib.util import find_spec
from pathlib import Path

from .._version import __version__
from ..core.errors import ExportError
from ..trace.nsys_export import installed_version


def versions() -> str:
    """One line for the package, one for what it runs on, one for the nsys that it would use.

    Nothing is run to find out, so that of an nsys on PATH the version may stay unknown.
    """
    runs_on = (
        f"Python {platform.python_version()}, numpy {_numpy()}, "
        f"SQLite {sqlite3.sqlite_version}, {platform.system()} {platform.machine()}"
    )
    return f"nsysoverlap {__version__}\n{runs_on}\n{_nsys()}"


def _numpy() -> str:
    """The version, as numpy's own file has it: neither numpy nor `importlib.metadata` is loaded."""
    spec = find_spec("numpy")
    file = Path(spec.origin or "").with_name("version.py") if spec else Path()
    found = re.search(r'^version = "(.+)"', file.read_text() if file.is_file() else "", re.M)
    if found:
        return found[1]
    from importlib.metadata import version

    return version("numpy")


def _nsys() -> str:
    try:
        version = installed_version()
    except ExportError as error:
        return f"nsys: {error.message}"
    if version is None:
        return "nsys: none found; only .nsys-rep reports need it"
    return f"nsys {version}" if version else "nsys: found, ask it for its version"
