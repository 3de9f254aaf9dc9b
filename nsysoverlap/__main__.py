"""The program: `nsysoverlap` and `python -m nsysoverlap`."""

from __future__ import annotations

import gc
import os

from .core.beside import allow_copies
from .core.interrupts import end_at_once

_BLAS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_COLLECT_AFTER = 50_000
"""Objects made between two collections: what a start makes lives to the end."""


def run() -> None:
    """Run the command line and exit."""
    end_at_once()
    # numpy starts a thread for each core as it loads, for algebra that nothing here does.
    for variable in _BLAS:
        os.environ.setdefault(variable, "1")
    allow_copies()
    gc.set_threshold(_COLLECT_AFTER, 20, 50)
    from .cli import main

    main(prog_name="nsysoverlap")


if __name__ == "__main__":
    run()
