"""Ways to get the columns of an export into numpy arrays, timed against each other in one run.

    python -m benchmarks.readers EXPORT --repeat 3

Each way reads the columns that the report needs, of all tables, in a process of its own, and they
take turns. connectorx and pyarrow are measured where installed; neither is needed otherwise. The
Parquet files, which stand for `nsys export --type parquetdir`, are written first and not timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from nsysoverlap.trace import bulk
from nsysoverlap.trace.bulk import Query, read_blocks
from nsysoverlap.trace.database import connect, probe
from nsysoverlap.trace.growing import join
from nsysoverlap.trace.pages import UnusualError

from .run import ALL_TABLES, build_bound, machine, median, queries, ratio
from .usage import Usage, measure

Arrays = dict[str, Any]


def by_blocks(path: Path, threads: int) -> list[Arrays]:
    """The reader of nsysoverlap."""
    with closing(connect(path)) as connection:
        found = [probe(connection, path.name).find(spec) for spec in ALL_TABLES]
    wanted = [
        Query.of(t, (c.name for c in t.spec.columns if c.name != "text"), ("text",))
        for t in found
        if t is not None
    ]
    return [join(read_blocks(path, query, lambda b: b, threads=threads)) for query in wanted]


def by_fallback(path: Path, threads: int) -> list[Arrays]:
    """The same where pages are unusual: a cursor of SQLite that yields integers only."""

    def refuse(*_: object) -> None:
        raise UnusualError

    setattr(bulk, "find_layout", refuse)  # noqa: B010 - so that no page is looked at
    return by_blocks(path, threads)


def by_cursor(path: Path, threads: int) -> list[Arrays]:
    """A tuple for each row, as the standard library gives them."""
    tables = []
    with closing(connect(path)) as connection:
        for query in queries(path, ALL_TABLES):
            cursor, parts = connection.execute(query), []
            while rows := cursor.fetchmany(1 << 16):
                columns = zip(*rows, strict=True)
                parts.append([np.array([v or 0 for v in c], np.int64) for c in columns])
            columns = zip(*parts, strict=True)
            tables.append({str(i): np.concatenate(c) for i, c in enumerate(columns)})
    return tables


def by_connectorx(path: Path, threads: int) -> list[Arrays]:
    """connectorx, through Arrow."""
    import connectorx

    found = []
    for query in queries(path, ALL_TABLES):
        table = connectorx.read_sql(f"sqlite://{path}", query, return_type="arrow")
        found.append({name: table[name].to_numpy() for name in table.column_names})
    return found


def by_parquet(path: Path, threads: int) -> list[Arrays]:
    """pyarrow, from Parquet files of the same columns."""
    import pyarrow
    from pyarrow import parquet

    pyarrow.set_cpu_count(threads)
    found = []
    for file in sorted(path.with_suffix(".parquet").iterdir()):
        table = parquet.read_table(file)
        found.append({name: table[name].to_numpy() for name in table.column_names})
    return found


def write_parquet(path: Path) -> None:
    """One file for each table, of the columns that are read; texts as nsys registers them."""
    import pyarrow
    from pyarrow import parquet

    folder = path.with_suffix(".parquet")
    folder.mkdir(exist_ok=True)
    for i, columns in enumerate(by_blocks(path, 2)):
        parquet.write_table(pyarrow.table(columns), folder / f"{i}.parquet")


WAYS: dict[str, Callable[[Path, int], list[Arrays]]] = {
    "pages": by_blocks,
    "fallback": by_fallback,
    "sqlite3 cursor": by_cursor,
    "connectorx": by_connectorx,
    "pyarrow, Parquet": by_parquet,
}
NEEDS = {"connectorx": ("connectorx", "pyarrow"), "pyarrow, Parquet": ("pyarrow",)}
ON_THREADS = ("pages", "pyarrow, Parquet")


def commands(path: Path, bound: Path) -> dict[str, list[str]]:
    """The commands to measure by name."""
    found = {"C, all columns": [str(bound), str(path), *queries(path, ALL_TABLES)]}
    for way in WAYS:
        if not all(importlib.util.find_spec(name) for name in NEEDS.get(way, ())):
            print(f"{way}: not installed", file=sys.stderr)
            continue
        for threads in (1, 2) if way in ON_THREADS else (1,):
            name = f"{way}, {threads} thread{'s' * (threads > 1)}" if way in ON_THREADS else way
            own = [sys.executable, "-m", "benchmarks.readers", str(path), "--one", way]
            found[name] = [*own, "--threads", str(threads)]
    return found


def table(turns: Sequence[dict[str, Usage]]) -> str:
    """Medians as Markdown."""
    lines = [
        "| reader | wall s | CPU s | wall / C | CPU / C | peak MB |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name in turns[0]:
        cells = [
            f"{median(turns, name, 'wall_s'):.2f}",
            f"{median(turns, name, 'cpu_s'):.2f}",
            ratio(turns, name, "C, all columns", "wall_s"),
            ratio(turns, name, "C, all columns", "cpu_s"),
            f"{median(turns, name, 'peak_bytes') / 1e6:.0f}",
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one == "write":
        write_parquet(arguments.export)
        return
    if arguments.one:
        WAYS[arguments.one](arguments.export, arguments.threads)
        return
    with tempfile.TemporaryDirectory() as folder:
        bound = build_bound(Path(folder))
        wanted = commands(arguments.export, bound)
        if "pyarrow, Parquet, 1 thread" in wanted:
            # In a process of its own, whose memory is not that of what is measured.
            write = [sys.executable, "-m", "benchmarks.readers", str(arguments.export)]
            subprocess.run([*write, "--one", "write"], check=True)
        print(machine(), end="\n\n")
        turns = [
            {name: measure(command) for name, command in wanted.items()}
            for _ in range(arguments.repeat)
        ]
    print(table(turns))


if __name__ == "__main__":
    main()
