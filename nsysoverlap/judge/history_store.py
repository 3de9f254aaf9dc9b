"""The run history: whole runs go in, in one transaction each; trends and baselines come out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import ConfigError, UsageError
from ..core.late import late
from ..core.records import dataclass
from ..result.model import OperationReport, OverlapReport
from .history_database import HINT, Told, open_database, say_nothing

if TYPE_CHECKING:
    from sqlite_utils import Database


@dataclass(frozen=True)
class Recorded:
    """A run in the database, and whether this call put it there."""

    run_id: int
    is_new: bool


@dataclass(frozen=True)
class Run:
    """One recorded run. `values` holds the columns of `history_schema.RUN_VALUES`."""

    run_id: int
    content_hash: str
    recorded_at: str
    labels: Mapping[str, str]
    traces: tuple[str, ...]
    gpus: str
    n_devices: int
    n_ranks: int
    basis: str
    transfer_kernels: str
    n_steps: int
    measured: str | None
    accepted: str | None
    values: Mapping[str, float | int | None]


@dataclass(frozen=True)
class Trend:
    """Runs of a database, oldest first; `name` is the base name of its file."""

    name: str
    runs: tuple[Run, ...]

    def _repr_html_(self) -> str:
        return str(late("result_html")(self))


def parse_labels(texts: Iterable[str]) -> dict[str, str]:
    """`key=value` texts as a dict. Raises `UsageError` for other texts and repeated keys."""
    labels: dict[str, str] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (key and equals):
            raise UsageError(f"--label: {text!r} is not key=value.", "Such as branch=main.")
        if labels.setdefault(key, value) != value:
            raise UsageError(f"--label: {key} is given twice.", "Give each key once.")
    return labels


def content_hash(paths: Sequence[Path]) -> str:
    """SHA-256 over the contents of trace files, whatever their names, order and folders."""
    digests = []
    for path in paths:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").digest())
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def record(
    path: Path,
    report: OverlapReport,
    content: str,
    labels: Mapping[str, str],
    *,
    replace: bool = False,
    now: datetime | None = None,
    told: Told = say_nothing,
) -> Recorded:
    """Store a run under the hash of its traces, whole or not at all.

    A run that is there already stays as it is unless `replace` is set. Raises `ConfigError` for a
    file that is no run history or a newer one, `NsysOverlapError` where it cannot be written.
    """
    from .history_tables import bring_up_to_date, create_tables, insert_run

    when = (now or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds")
    with open_database(path, told, write=True) as db:
        if _is_empty(db):
            create_tables(db)
        _check_ours(db, path)
        bring_up_to_date(db)
        found = db.conn.execute("SELECT id FROM runs WHERE content_hash = ?", [content]).fetchone()
        if found is not None and not replace:
            db.conn.execute("ROLLBACK")
            return Recorded(int(found[0]), False)
        if found is not None:
            _delete_run(db, int(found[0]))
        text = json.dumps(dict(sorted(labels.items())), ensure_ascii=False)
        run_id = insert_run(db, report, content, when, text)
        db.conn.execute("COMMIT")
        return Recorded(run_id, True)


def _delete_run(db: Database, run_id: int) -> None:
    for table in ("steps", "devices", "operations", "findings"):
        db.table(table).delete_where("run_id = ?", [run_id])
    db.table("runs").delete(run_id)


def read_runs(
    path: Path,
    labels: Mapping[str, str] | None = None,
    search: str | None = None,
    told: Told = say_nothing,
) -> list[Run]:
    """All runs with these labels, oldest first; `search` is a full-text query over labels.

    Raises `ConfigError` for a file that is missing, no run history, or a newer one.
    """
    where = ["1"]
    values: list[Any] = []
    for key, value in (labels or {}).items():
        # A path expression cannot hold every key; comparing the pairs can.
        where.append("EXISTS (SELECT 1 FROM json_each(labels) WHERE key = ? AND value = ?)")
        values += [key, value]
    if search:
        where.append("id IN (SELECT rowid FROM runs_fts WHERE runs_fts MATCH ?)")
        values.append(_quoted(search))
    with open_database(path, told) as db:
        _check_ours(db, path)
        rows = db.query(
            f"SELECT * FROM runs WHERE {' AND '.join(where)} ORDER BY recorded_at, id",  # noqa: S608
            values,
        )
        return [_run(row) for row in rows]


def _quoted(search: str) -> str:
    """Words to find, each quoted, so that `=` and `-` in labels are no query syntax."""
    return " ".join('"{}"'.format(word.replace('"', '""')) for word in search.split())


def _run(row: Mapping[str, Any]) -> Run:
    from .history_tables import RUN_VALUES, value_of

    return Run(
        run_id=row["id"],
        content_hash=row["content_hash"],
        recorded_at=row["recorded_at"],
        labels=json.loads(row["labels"]),
        traces=tuple(json.loads(row["traces"])),
        gpus=row["gpus"],
        n_devices=row["n_devices"],
        n_ranks=row["n_ranks"],
        basis=row["basis"],
        transfer_kernels=row["transfer_kernels"],
        n_steps=row["n_steps"],
        measured=row.get("measured"),
        accepted=row.get("accepted"),
        values={name: value_of(row, "runs", name) for name in RUN_VALUES},
    )


def read_operations(
    path: Path, run_id: int, told: Told = say_nothing
) -> tuple[OperationReport, ...]:
    """The operations of one run; rates and estimated bytes are not stored."""
    from .history_tables import read_operation

    with open_database(path, told) as db:
        rows = db.table("operations").rows_where("run_id = ?", [run_id], order_by="id")
        return tuple(map(read_operation, rows))


def _is_empty(db: Database) -> bool:
    return not db.conn.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()


def _check_ours(db: Database, path: Path) -> None:
    from .history_tables import APPLICATION_ID, VERSION

    application = db.conn.execute("PRAGMA application_id").fetchone()[0]
    version = db.conn.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise ConfigError(f"{path.name}: is a database, but no run history.", HINT)
    if version > VERSION:
        raise ConfigError(
            f"{path.name}: the run history has version {version}; this nsysoverlap reads up to "
            f"{VERSION}.",
            "Update nsysoverlap.",
        )
