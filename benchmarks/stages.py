"""Where the time and the memory of a report go, stage by stage; the stages add up to the whole.

    python -m benchmarks.stages build/benchmarks/rows-6000000.sqlite

In one process and thread, with `--steps none`. A stage holds what no stage inside it takes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STAGES = {
    "start Python, import": (),
    "read GPU tables": (("trace.load", "read_columns"),),
    "read calls and ranges": (("trace.load", "read_host"),),
    "read and join waits": (("trace.load", "read_wait_tables"), ("trace.load", "read_waits")),
    "which launches have rows": (("trace.capture_facts", "trace_facts"),),
    "the rest of reading": (("run.many", "read_trace"),),
    "classify": (("run.analysis", "classify"),),
    "lanes of each device": (("run.analysis", "device_case"),),
    "numbers of each device": (("run.analysis", "measure_device"),),
    "operations": (("run.analysis", "device_operations"), ("run.analysis", "measure_operations")),
    "kernels": (("run.analysis", "device_kernels"), ("run.analysis", "measure_kernels")),
    "findings": (("run.analysis", "find"),),
    "health": (("run.analysis", "judge"),),
    "the rest of measuring": (("run.many", "analyze_trace"),),
    "write": (),
}
"""Each stage and the functions, as (module, name), whose time it is."""


class Stages:
    """Seconds of CPU and the peak of memory after each stage."""

    def __init__(self) -> None:
        self.cpu_s = dict.fromkeys(STAGES, 0.0)
        self.peak = dict.fromkeys(STAGES, 0)
        self._inside: list[str] = []
        self._since = 0.0

    def switch(self, stage: str | None) -> None:
        """Another stage begins, or with None the one that is at work ends."""
        now = time.process_time()
        if self._inside:
            at_work = self._inside[-1]
            self.cpu_s[at_work] += now - self._since
            self.peak[at_work] = max(self.peak[at_work], peak_bytes())
        self._since = now
        if stage is None:
            self._inside.pop()
        else:
            self._inside.append(stage)

    def watch(self, stage: str, module: str, name: str) -> None:
        """Count the time of a function to a stage."""
        home = sys.modules[f"nsysoverlap.{module}"]
        function: Callable[..., Any] = getattr(home, name)

        def watched(*args: Any, **extra: Any) -> Any:
            self.switch(stage)
            try:
                return function(*args, **extra)
            finally:
                self.switch(None)

        setattr(home, name, watched)


def peak_bytes() -> int:
    """The most memory that this process has had, as the kernel has it for this program alone."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    path: Path = parser.parse_args().path
    stages = Stages()
    stages.switch("start Python, import")
    from nsysoverlap.cli.formats import render
    from nsysoverlap.run.analysis import Options
    from nsysoverlap.run.many import analyze_file
    from nsysoverlap.steps.plan import StepSpec

    for stage, functions in STAGES.items():
        for module, name in functions:
            stages.watch(stage, module, name)
    stages.switch(None)
    stages.switch("the rest of measuring")
    report = analyze_file(path, Options(steps=StepSpec("none")), threads=1)
    stages.switch("write")
    render(report, "json")
    for _ in range(2):
        stages.switch(None)
    # What Python took before it came to the first line here.
    whole = time.process_time()
    stages.cpu_s["start Python, import"] += whole - sum(stages.cpu_s.values())
    print(table(stages, whole))


def table(stages: Stages, whole: float) -> str:
    """The stages as Markdown, with their sum."""
    lines = ["| stage | CPU s | share | peak MB after it |", "|---|--:|--:|--:|"]
    for stage, cpu_s in stages.cpu_s.items():
        peak = stages.peak[stage]
        lines.append(f"| {stage} | {cpu_s:.2f} | {cpu_s / whole:.0%} | {peak / 1e6:.0f} |")
    lines.append(f"| all | {whole:.2f} | 100% | {peak_bytes() / 1e6:.0f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
