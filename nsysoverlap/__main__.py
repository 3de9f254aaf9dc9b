"""The program: `nsysoverlap` and `python -m nsysoverlap`."""

from __future__ import annotations

from .core.interrupts import end_at_once


def run() -> None:
    """Run the command line and exit."""
    end_at_once()
    from .cli import main

    main(prog_name="nsysoverlap")


if __name__ == "__main__":
    run()
