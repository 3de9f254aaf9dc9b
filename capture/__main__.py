"""`python -m capture`."""

from __future__ import annotations

from nsysoverlap.core.interrupts import end_at_once

if __name__ == "__main__":
    end_at_once()
    from .cli import main

    main()
