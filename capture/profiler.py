"""Opening and closing the window that nsys records, through the CUDA runtime."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import RefusedError

LIBRARIES = ("libcudart.so", "libcudart.so.13", "libcudart.so.12")
WHEEL_LIBRARIES = ("cu13/lib/libcudart.so.13", "cuda_runtime/lib/libcudart.so.12")
DRIVER = "libcuda.so.1"


def runtime_candidates() -> list[tuple[str, str]]:
    """Libraries to try, in order, with the prefix of their two profiler functions."""
    found = [(name, "cudaProfiler") for name in LIBRARIES]
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec else ():
        found += [(str(Path(root, name)), "cudaProfiler") for name in WHEEL_LIBRARIES]
    return [*found, (DRIVER, "cuProfiler")]


class Window:
    """The two calls that open and close the recording. Raises `RefusedError` without a library."""

    def __init__(self, candidates: Sequence[tuple[str, str]] | None = None) -> None:
        tried = runtime_candidates() if candidates is None else candidates
        for name, prefix in tried:
            try:
                library = ctypes.CDLL(name)
                self._start: Any = getattr(library, f"{prefix}Start")
                self._stop: Any = getattr(library, f"{prefix}Stop")
            except (OSError, AttributeError):
                continue
            self.library = Path(name).name
            return
        raise RefusedError(
            "No CUDA runtime library was found, so the recording cannot be started.",
            "Looked for: " + ", ".join(Path(name).name for name, _ in tried) + ".",
        )

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what runs inside. Raises `RefusedError` when CUDA answers with an error."""
        self._check(self._start(), "start")
        try:
            yield
        finally:
            self._check(self._stop(), "stop")

    def _check(self, status: int, verb: str) -> None:
        if status != 0:
            raise RefusedError(
                f"CUDA could not {verb} the profiler: error {status} from {self.library}.",
                "Check that no other profiler is attached to the process.",
            )
