"""Time and peak memory of reports on large exports, as ratios measured in one run.

    python -m benchmarks.run --rows 600000 6000000 --folder /tmp/bench

Programs take turns, `--repeat` times over, so that whatever else the machine does hits all of
them; a ratio is the median over turns. The yardstick is a C program that does nothing but step
over the columns that the report reads, and `nsys stats` where an nsys is installed. Needs gcc
and the SQLite headers.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from nsysoverlap.trace import schema
from nsysoverlap.trace.database import connect, probe

from .usage import Usage, measure

GPU_TABLES = schema.ACTIVITY_TABLES
ALL_TABLES = (
    *GPU_TABLES,
    *(schema.RUNTIME, schema.NVTX, schema.SYNCHRONIZATION, schema.CUDA_EVENT),
)
_STATS = "cuda_gpu_sum,cuda_gpu_mem_time_sum"
_IMPORTS = (
    "import nsysoverlap.run.analysis, nsysoverlap.cli, nsysoverlap.run.many, nsysoverlap.show.text"
)
_READ = "import sys, nsysoverlap; nsysoverlap.read_trace(sys.argv[1], threads=int(sys.argv[2]))"
_NONE = """
import sys, pathlib
from nsysoverlap.run.analysis import Options
from nsysoverlap.run.many import analyze_file
from nsysoverlap.cli.formats import render
from nsysoverlap.steps.plan import StepSpec
path, threads = pathlib.Path(sys.argv[1]), int(sys.argv[2])
print(render(analyze_file(path, Options(steps=StepSpec("none")), threads=threads), "json"))
"""


def queries(path: Path, tables: Sequence[schema.TableSpec]) -> list[str]:
    """For each table of an export the columns that the reader reads."""
    with closing(connect(path)) as connection:
        found = [probe(connection, path.name).find(spec) for spec in tables]
    return [
        f"SELECT {', '.join(schema.quote(c) for c in t.columns.values())} FROM {t.quoted}"
        for t in found
        if t is not None
    ]


def programs(path: Path, bound: Path, nsys: str | None) -> dict[str, list[str]]:
    """The commands to measure by name."""
    report = [sys.executable, "-m", "nsysoverlap", "report", str(path), "--format", "json"]
    found = {
        "C, GPU tables": [str(bound), str(path), *queries(path, GPU_TABLES)],
        "C, all columns": [str(bound), str(path), *queries(path, ALL_TABLES)],
        "report --steps none": [*report, "--steps", "none"],
        "report": report,
        "--steps none, 1 thread": [sys.executable, "-c", _NONE, str(path), "1"],
        "read_trace": [sys.executable, "-c", _READ, str(path), "2"],
        "read_trace, 1 thread": [sys.executable, "-c", _READ, str(path), "1"],
        "imports": [sys.executable, "-c", _IMPORTS],
    }
    if nsys is not None:
        found["nsys stats"] = [nsys, "stats", "-q", "-r", _STATS, "-o", "-", str(path)]
    return found


def median(turns: Sequence[dict[str, Usage]], name: str, of: str) -> float:
    """What one program took in the middle turn."""
    return float(statistics.median(getattr(turn[name], of) for turn in turns))


def ratio(turns: Sequence[dict[str, Usage]], name: str, to: str, of: str) -> str:
    """The median over turns of one program against another; empty where that was not run."""
    if to not in turns[0]:
        return ""
    pairs = [getattr(turn[name], of) / getattr(turn[to], of) for turn in turns]
    return f"{statistics.median(pairs):.2f}"


def table(path: Path, turns: Sequence[dict[str, Usage]]) -> str:
    """The medians of one file as Markdown."""
    n_gpu, n_all = n_rows(path, GPU_TABLES), n_rows(path, ALL_TABLES)
    imports = median(turns, "imports", "peak_bytes")
    lines = [
        f"{n_gpu:,} GPU rows, {n_all:,} rows read, {path.stat().st_size / 1e9:.2f} GB, "
        f"median of {len(turns)}:\n",
        "| program | wall s | CPU s | wall / C | CPU / C | wall / nsys | peak MB | bytes a GPU row "
        "| bytes a row read |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name in turns[0]:
        over = max(0.0, median(turns, name, "peak_bytes") - imports)
        ours = name not in ("imports", "nsys stats") and not name.startswith("C,")
        cells = [
            f"{median(turns, name, 'wall_s'):.2f}",
            f"{median(turns, name, 'cpu_s'):.2f}",
            ratio(turns, name, "C, all columns", "wall_s"),
            ratio(turns, name, "C, all columns", "cpu_s"),
            ratio(turns, name, "nsys stats", "wall_s"),
            f"{median(turns, name, 'peak_bytes') / 1e6:.0f}",
            f"{over / n_gpu:.0f}" if ours else "",
            f"{over / n_all:.0f}" if ours else "",
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def n_rows(path: Path, tables: Sequence[schema.TableSpec]) -> int:
    """How many rows some tables of an export have."""
    with closing(connect(path)) as connection:
        found = [probe(connection, path.name).find(spec) for spec in tables]
        return sum(
            connection.execute(f"SELECT count(*) FROM {t.quoted}").fetchone()[0]
            for t in found
            if t is not None
        )


def build_bound(folder: Path) -> Path:
    """Compile the C program."""
    bound, source = folder / "bound", Path(__file__).with_name("bound.c")
    subprocess.run(["gcc", "-O2", str(source), "-o", str(bound), "-lsqlite3"], check=True)
    return bound


def machine() -> str:
    """What the figures were measured on."""
    model = "unknown processor"
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else ():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    python = ".".join(map(str, sys.version_info[:3]))
    load = os.getloadavg()[1]
    return (
        f"{model}, {cores} cores, {memory:.0f} GB, Python {python}, load average before the run "
        f"{load:.1f}"
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[600_000, 6_000_000])
    parser.add_argument("--folder", type=Path, default=Path("build/benchmarks"))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--nsys", default=shutil.which("nsys"), help="[default: from PATH]")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    bound = build_bound(folder)
    print(machine(), end="\n\n")
    for n in arguments.rows:
        path = folder / f"rows-{n}.sqlite"
        if not path.exists():
            part = path.with_suffix(".part")
            # In a process of its own: children begin with the peak memory of who starts them.
            generator = [sys.executable, "-m", "benchmarks.generate", str(n), str(part)]
            subprocess.run(generator, check=True)
            part.rename(path)
        commands = programs(path, bound, arguments.nsys)
        turns = [
            {name: measure(command) for name, command in commands.items()}
            for _ in range(arguments.repeat)
        ]
        print(table(path, turns), flush=True)
        subprocess.run([sys.executable, "-m", "benchmarks.stages", str(path)], check=True)
        print(flush=True)


if __name__ == "__main__":
    main()
