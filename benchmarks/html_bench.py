"""The HTML report of a large trace: seconds from file to page, memory, size of the page.

    python -m benchmarks.html_bench             # 1,000,000 activities, made in a temporary folder
    python -m benchmarks.html_bench TRACE.sqlite

Exits with 1 where it takes over 10 s, or the page is over 2 MB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from .usage import measure as measure_command

ACTIVITIES = 1_000_000
MAX_SECONDS = 10.0
MAX_BYTES = 2_000_000


def measure(trace: Path, folder: Path) -> tuple[float, float, int]:
    """Seconds, MiB and bytes of the page, in a process of its own."""
    page = folder / "report.html"
    command = [sys.executable, "-m", "nsysoverlap", "report", str(trace), "--format", "html"]
    took = measure_command([*command, "-o", str(page)])
    return took.wall_s, took.peak_bytes / 2**20, page.stat().st_size


def main() -> int:
    """Measure one trace and say whether it is within the limits."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if len(sys.argv) > 1:
            trace = Path(sys.argv[1])
        else:
            trace = folder / "bench.sqlite"
            generate = [sys.executable, "-m", "benchmarks.generate", str(ACTIVITIES), str(trace)]
            subprocess.run(generate, check=True)
        seconds, peak, size = measure(trace, folder)
    print(f"{trace.name}: {seconds:.1f} s, {peak:.0f} MiB, a page of {size / 1e6:.2f} MB")
    return int(seconds > MAX_SECONDS or size > MAX_BYTES)


if __name__ == "__main__":
    sys.exit(main())
