"""What tests of the measuring stages share: device cases of an export, and launches with waits."""

from __future__ import annotations

from pathlib import Path

from nsysoverlap import Window
from nsysoverlap.measure.case import DeviceCase, device_case
from nsysoverlap.roles.rules import classify
from nsysoverlap.steps.launches import Launches
from nsysoverlap.steps.plan import StepSpec, plan_steps
from nsysoverlap.trace.load import read_trace

from .tracebuilder import ALL_REDUCE, GEMM, TraceBuilder


def device_cases(path: Path, steps: str = "none", window: Window | None = None) -> list[DeviceCase]:
    """One case for each device of an export."""
    classified = classify(read_trace(path))
    launches = Launches(classified.trace)
    plan = plan_steps(classified, StepSpec(steps))
    return [
        device_case(classified, launches, device, plan, window or Window())
        for device in classified.trace.devices
    ]


class Scene:
    """Work launched at one time that runs at another, on streams that wait for one another.

    Times are ns. A call takes 1 ns; `at=None` leaves it out.
    """

    def __init__(self) -> None:
        self.builder = TraceBuilder()
        self._next = 1

    def run(
        self,
        kind: str,
        stream: int,
        at: int | None,
        start: int,
        end: int,
        *,
        name: str = GEMM,
        api: str = "cudaLaunchKernel_v7000",
        pid: int = 1000,
        tid: int = 1,
        device: int = 0,
        graph: bool = False,
        n_bytes: int = 100,
        correlation: int | None = None,
    ) -> int:
        """A kernel (compute, comm) or a copy, launched at `at`; returns the correlation id."""
        if correlation is None:
            correlation = self._call("cudaGraphLaunch_v10000" if graph else api, at, pid, tid)
        node = (3 << 32) | start if graph else None
        if kind in ("compute", "comm"):
            self.builder.kernel(
                start,
                end,
                ALL_REDUCE if kind == "comm" else name,
                correlation=correlation,
                graph_node=node,
                api=None,
                stream=stream,
                pid=pid,
                device=device,
            )
        else:
            self.builder.copy(
                start,
                end,
                kind,
                n_bytes,
                correlation=correlation,
                graph_node=node,
                api=None,
                stream=stream,
                pid=pid,
                device=device,
            )
        return correlation

    def record(self, stream: int, at: int, event: int, pid: int = 1000) -> None:
        """Record an event on a stream."""
        correlation = self._call("cudaEventRecord_v3020", at, pid, 1)
        self.builder.cuda_event(
            event, event_sync_id=event, correlation=correlation, stream=stream, pid=pid
        )

    def wait(self, stream: int, at: int, event: int, pid: int = 1000) -> None:
        """Make a stream wait for an event."""
        correlation = self._call("cudaStreamWaitEvent_v3020", at, pid, 1)
        self.builder.sync(
            *(at, at + 1),
            event_id=event,
            event_sync_id=event,
            correlation=correlation,
            stream=stream,
            pid=pid,
        )

    def synchronise(
        self, what: str, at: int, until: int, *, stream: int = 7, event: int = 0, tid: int = 1
    ) -> None:
        """A Stream, Event or Device synchronisation; nsys writes no row for that of a device."""
        correlation, self._next = self._next, self._next + 1
        self.builder.api(f"cuda{what}Synchronize_v3020", at, until, correlation, tid=tid)
        if what != "Device":
            place = {"correlation": correlation, "stream": stream}
            self.builder.sync(at, until, event_id=event, event_sync_id=event or None, **place)

    def label(self, text: str, start: int, end: int, *, tid: int = 1, pid: int = 1000) -> None:
        """An NVTX range."""
        self.builder.nvtx(text, start, end, tid=tid, pid=pid)

    def cases(self, path: Path, steps: str = "none", schema: str = "3.20") -> list[DeviceCase]:
        """One case for each device of what was drawn."""
        return device_cases(self.builder.write(path, schema), steps)

    def case(self, path: Path, steps: str = "none", schema: str = "3.20") -> DeviceCase:
        """The only device of what was drawn."""
        (case,) = self.cases(path, steps, schema)
        return case

    def _call(self, api: str, at: int | None, pid: int, tid: int) -> int:
        correlation, self._next = self._next, self._next + 1
        if at is not None:
            self.builder.api(api, at, at + 1, correlation, pid=pid, tid=tid)
        return correlation
