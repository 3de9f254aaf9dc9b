"""What in an export could tell who made it, where, or on which machine."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection
from pathlib import Path

from ..core.records import dataclass
from ..trace.capture_facts import identities
from ..trace.database import open_database, probe
from ..trace.schema import quote
from ..trace.values import text

_PAYLOAD = "names that the program gave its NVTX data"
_KNOWN = {
    "TARGET_INFO_SYSTEM_ENV": "the machine: host name, system, driver",
    "TARGET_INFO_GPU": "names, uuids and bus addresses of GPUs",
    "TARGET_INFO_CUDA_DEVICE": "uuids of GPUs",
    "TARGET_INFO_NIC_INFO": "network cards",
    "TARGET_INFO_SESSION_START_TIME": "date and time of the capture",
    "META_DATA_CAPTURE": "command line and environment variables",
    "META_DATA_EXPORT": "how, when and from which file it was exported",
    "EXPORT_META_DATA": "how, when and from which file it was exported",
    "PROCESSES": "names of running programs",
    "ProcessStreams": "output of the program",
    "ANALYSIS_FILE": "paths of log files",
    "DIAGNOSTIC_EVENT": "messages of the profiler",
    "NVTX_EVENTS": "texts of NVTX ranges, marks and threads",
    "NVTX_PAYLOAD_SCHEMAS": _PAYLOAD,
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": _PAYLOAD,
    "NVTX_PAYLOAD_ENUMS": _PAYLOAD,
    "NVTX_PAYLOAD_ENUM_ENTRIES": _PAYLOAD,
    "StringIds": "names of kernels, functions, ranges, threads and files",
}
_ENUMS = re.compile(r"^ENUM_")
_NUMBERS = re.compile(r"INT|REAL|FLOA|DOUB", re.IGNORECASE)
# Narrower than what `privacy` hides, for which scopes such as jit(f)/jvp()/dot are paths too.
# Nothing begins inside a word: trying that would take forever where words are long.
REVEALING = re.compile(
    r"""
    (?<![\w.)\]}>/])(?:/|~/|[A-Za-z]:\\)[\w.+@-]+[\\/][^\s"',;]*  # absolute path
    | \\\\[\w.-]+\\\S+                                      # network path
    | (?<!\w)\w+://[^\s"',;]+                               # address
    | (?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]+                  # user at a host
    | \b\d{1,3}(?:\.\d{1,3}){3}\b(?!\.)                     # IPv4
    """,
    re.VERBOSE,
)
_SHOWN = 3
_SEARCHED = 100_000
_LONGEST = 120


@dataclass(frozen=True)
class Sensitive:
    """Texts of one column of an export: how many rows hold one, and what they are.

    `revealing` counts the distinct texts that hold a path, a host, a user or an address, of which
    `examples` are some.
    """

    table: str
    column: str
    n: int
    what: str
    revealing: int = 0
    examples: tuple[str, ...] = ()


def find_sensitive(path: Path, names: Collection[str] = ()) -> list[Sensitive]:
    """Every column of an export that holds texts, those with revealing ones first.

    `names` of machines and users reveal too.
    """
    known = "|".join(map(re.escape, names))
    named = re.compile(rf"(?<![A-Za-z0-9])(?:{known})(?![A-Za-z0-9])" if known else r"(?!)")
    result = []
    with open_database(path) as connection:
        for table in probe(connection, path.name).tables:
            if _ENUMS.search(table):
                continue
            for name in _columns_with_texts(connection, table):
                rows = connection.execute(
                    f"SELECT {quote(name)}, count(*) FROM {quote(table)} "  # noqa: S608
                    f"WHERE length({quote(name)}) > 0 AND typeof({quote(name)}) "
                    f"IN ('text', 'blob') GROUP BY 1"
                )
                texts = {text(value) or "": n for value, n in rows}
                if texts:
                    shown = [t for t in texts if _reveals(t[:_SEARCHED], named)]
                    examples = tuple(_cut(t) for t in shown[:_SHOWN])
                    what = _KNOWN.get(table, "texts of a table that nsysoverlap does not read")
                    n = sum(texts.values())
                    result.append(Sensitive(table, name, n, what, len(shown), examples))
    return sorted(result, key=lambda s: (not s.revealing, s.table, s.column))


def names_in(path: Path) -> frozenset[str]:
    """What an export calls its machine and its user."""
    with open_database(path) as connection:
        return identities(connection, probe(connection, path.name))


def _reveals(label: str, named: re.Pattern[str]) -> bool:
    return bool(REVEALING.search(label) or named.search(label))


def _columns_with_texts(connection: sqlite3.Connection, table: str) -> list[str]:
    """Columns that may hold texts: those declared as numbers where they do so all the same."""
    columns = connection.execute(f"PRAGMA table_info({quote(table)})").fetchall()
    names = [str(column[1]) for column in columns]
    numbers = [str(column[1]) for column in columns if _NUMBERS.search(str(column[2]))]
    if not numbers:
        return names
    held = ", ".join(f"max(typeof({quote(name)}) IN ('text', 'blob'))" for name in numbers)
    (found,) = connection.execute(f"SELECT {held} FROM {quote(table)}")  # noqa: S608
    without = {name for name, texts in zip(numbers, found, strict=True) if not texts}
    return [name for name in names if name not in without]


def _cut(label: str) -> str:
    return label if len(label) <= _LONGEST else f"{label[:_LONGEST]}…"
