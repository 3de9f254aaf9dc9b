"""Clocks and power of the GPUs while steps run, read through NVML."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import mean
from typing import Any

INTERVAL_S = 0.1
POWER_CAP = 0x4
"""The bit of NVML's clock event reasons that says: held down by the power limit."""


class Readings:
    """What was read; `summary` is None before a reading, and says so where NVML is absent."""

    def __init__(self) -> None:
        self.absent = ""
        self.values: list[tuple[int, int, float, int]] = []

    def summary(self) -> dict[str, Any]:
        """Means over all readings, for the manifest."""
        if not self.values:
            return {"absent": self.absent or "no reading was taken"}
        sm, memory, watts, reasons = zip(*self.values, strict=True)
        return {
            "n": len(self.values),
            "sm_mhz": mean(sm),
            "memory_mhz": mean(memory),
            "watts": mean(watts),
            "capped_share": mean(bool(reason & POWER_CAP) for reason in reasons),
        }


@contextmanager
def reading(index: int = 0) -> Iterator[Readings]:
    """Read clocks and power of this process's GPU number `index` beside the block."""
    found = Readings()
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = _handle(pynvml, index)
    except Exception as error:
        # NVML's errors have no class of their own where the package is absent.
        found.absent = f"NVML: {type(error).__name__}"
        yield found
        return
    done = threading.Event()
    thread = threading.Thread(target=_read, args=(pynvml, handle, found, done), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()
        pynvml.nvmlShutdown()


def _handle(nvml: Any, index: int) -> Any:
    """The handle of a GPU as CUDA counts it: NVML knows nothing of CUDA_VISIBLE_DEVICES."""
    visible = [part for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part]
    if not visible:
        return nvml.nvmlDeviceGetHandleByIndex(index)
    name = visible[index]
    if name.isdecimal():
        return nvml.nvmlDeviceGetHandleByIndex(int(name))
    return nvml.nvmlDeviceGetHandleByUUID(name)


def _read(nvml: Any, handle: Any, found: Readings, done: threading.Event) -> None:
    while not done.wait(INTERVAL_S):
        try:
            found.values.append(
                (
                    nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
                    nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
                    nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
                    nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
                )
            )
        except nvml.NVMLError as error:
            found.absent = f"NVML: {error}"
            return
