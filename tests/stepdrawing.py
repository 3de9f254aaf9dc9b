"""Draw launches and the GPU work they cause, apart in time: dispatch runs ahead of the GPU."""

from __future__ import annotations

from pathlib import Path

from nsysoverlap import RuleSet
from nsysoverlap.roles.rules import classify
from nsysoverlap.steps.plan import StepPlan, StepSpec, plan_steps
from nsysoverlap.trace.load import read_trace

from .tracebuilder import ALL_REDUCE, GEMM, TraceBuilder

US = 1_000


class Dispatch:
    """Times in microseconds. Work is launched at `at` on thread `tid` and runs later."""

    def __init__(self) -> None:
        self.builder = TraceBuilder()
        self._next = 1

    def range(
        self, text: str, start: int, end: int | None, *, tid: int = 1, pid: int = 1000
    ) -> None:
        self.builder.nvtx(text, start * US, None if end is None else end * US, tid=tid, pid=pid)

    def run(
        self,
        at: int,
        start: int,
        end: int,
        kind: str = "compute",
        *,
        tid: int = 1,
        pid: int = 1000,
        device: int = 0,
        name: str | None = None,
        graph_node: int | None = None,
        correlation: int | None = None,
    ) -> None:
        """One activity launched by a call at `at`."""
        stream = {"compute": 7, "comm": 9, "graph": 7}.get(kind, 20)
        if correlation is None:
            correlation = self._next
            self._next += 1
            api = "cudaGraphLaunch_v10000" if kind == "graph" else "cudaLaunchKernel_v7000"
            self.builder.api(api, at * US, at * US + 500, correlation, tid=tid, pid=pid)
        if kind in ("compute", "comm"):
            self.builder.kernel(
                start * US,
                end * US,
                name or (GEMM if kind == "compute" else ALL_REDUCE),
                correlation=correlation,
                api=None,
                graph_node=graph_node,
                stream=stream,
                pid=pid,
                device=device,
            )
        elif kind == "graph":
            self.builder.graph(
                start * US,
                end * US,
                correlation=correlation,
                api=None,
                stream=stream,
                pid=pid,
                device=device,
            )
        else:
            self.builder.copy(
                start * US,
                end * US,
                kind,
                correlation=correlation,
                api=None,
                graph_node=graph_node,
                stream=stream,
                pid=pid,
                device=device,
            )

    def plan(self, path: Path, spec: StepSpec | None = None, **options: object) -> StepPlan:
        """The steps of what was drawn."""
        written = self.builder.write(path, "3.20", **options)  # type: ignore[arg-type]
        return plan_steps(classify(read_trace(written), RuleSet()), spec or StepSpec())


def windows(plan: StepPlan, device: int = 0) -> list[tuple[str, int, int]]:
    """Label, start and end of each step of a device, in microseconds."""
    return [(w.label, w.start_ns // US, w.end_ns // US) for w in plan.of(device)]
