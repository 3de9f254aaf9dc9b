"""What the benchmarks measure with: their peaks are the command's own, their stages add up."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.usage import measure

from .traces import h200

ROOT = Path(__file__).parents[1]


def test_the_peak_is_that_of_the_command() -> None:
    mine = np.ones(100_000_000, np.uint8)
    small = measure(["true"])
    large = measure([sys.executable, "-S", "-c", "bytearray(b'x' * 60_000_000)"])
    assert small.peak_bytes < 30_000_000 < 60_000_000 < large.peak_bytes < 150_000_000
    assert small.cpu_s < large.cpu_s <= large.wall_s * (os.cpu_count() or 1)
    assert mine.all()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of shared memory on Linux")
def test_memory_of_two_processes_counts_once_where_it_is_shared() -> None:
    code = (
        "import os, time\n"
        "shared = bytearray(b'x' * 80_000_000)\n"
        "if os.fork() == 0:\n"
        "    own = bytearray(b'y' * 40_000_000); time.sleep(1.2); os._exit(0)\n"
        "os.wait()"
    )
    peak = measure([sys.executable, "-S", "-c", code]).peak_bytes
    assert 120_000_000 < peak < 190_000_000


def test_a_command_that_fails_is_no_figure() -> None:
    with pytest.raises(RuntimeError, match="false ended with 1"):
        measure(["false"])


def test_the_stages_add_up() -> None:
    command = [sys.executable, "-m", "benchmarks.stages", str(h200("jax_fsdp2_lhs"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    rows = re.findall(r"^\| (.+) \| ([\d.]+) \| \d+% \| (\d+) \|$", done.stdout, re.MULTILINE)
    *stages, (last, whole, peak) = [(name, float(cpu), int(mb)) for name, cpu, mb in rows]
    assert last == "all"
    assert sum(cpu for _, cpu, _ in stages) == pytest.approx(whole, abs=0.005 * len(stages))
    assert {"read GPU tables", "findings", "write"} <= {name for name, cpu, _ in stages if cpu >= 0}
    assert all(20 < mb <= peak for _, _, mb in stages)
