"""Many ranks on one machine: speed-up over processes, and memory of the parent.

    python -m benchmarks.ranks_bench --ranks 128 --activities 100000 --jobs 2

Every rank is a file of its own name with the same contents. Each measurement runs in a fresh
process. `--jobs 1` reads in the parent with one thread, as each process of the pool does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gatekit import large_trace

from .usage import user_environment

MIB = 1 << 20


def make_ranks(folder: Path, n_ranks: int, n_activities: int) -> None:
    """`rank0.sqlite` and links to it."""
    first = large_trace(folder / "rank0.sqlite", n_activities)
    for i in range(1, n_ranks):
        os.link(first, folder / f"rank{i}.sqlite")


def resident_bytes() -> int:
    """Resident memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(folder: Path, jobs: int) -> dict[str, Any]:
    """Wall time of `analyze_many`, and the parent's memory after each tenth of the ranks."""
    from nsysoverlap.run.analysis import Options
    from nsysoverlap.run.many import analyze_many, find_traces

    paths = find_traces([folder])
    memory: list[int] = []
    start = time.perf_counter()
    report, errors = analyze_many(
        paths, Options(), _sampler(memory, len(paths)), jobs=jobs, threads=1
    )
    seconds = time.perf_counter() - start
    assert not errors
    assert len(report.traces) == len(paths)
    return {"jobs": jobs, "seconds": round(seconds, 2), "parent_mib": [n // MIB for n in memory]}


def _sampler(memory: list[int], total: int) -> Callable[[Path], None]:
    seen = 0

    def on_done(path: Path) -> None:
        nonlocal seen
        seen += 1
        if seen % max(1, total // 10) == 0:
            memory.append(resident_bytes())

    return on_done


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=128)
    parser.add_argument("--activities", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.folder is not None:
        print(json.dumps(measure(chosen.folder, chosen.jobs)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_ranks(folder, chosen.ranks, chosen.activities)
        # The first run only warms the page cache.
        _, alone, several = (_in_new_process(folder, jobs) for jobs in (1, 1, chosen.jobs))
    speed_up = round(alone["seconds"] / several["seconds"], 2)
    print(json.dumps({"alone": alone, "several": several, "speed_up": speed_up}, indent=2))


def _in_new_process(folder: Path, jobs: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.ranks_bench", "--folder", str(folder)]
    done = subprocess.run(
        [*command, "--jobs", str(jobs)],
        check=True,
        capture_output=True,
        text=True,
        env=user_environment(),
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main()
