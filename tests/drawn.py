"""How many examples a slow test draws: a quarter in `make test-all`, all of them in `make fuzz`."""

from __future__ import annotations

import os


def drawn(n: int) -> int:
    """`n` where `DRAWN=full` is set, else a quarter, so that no test takes more than minutes."""
    return n if os.environ.get("DRAWN") == "full" else n // 4
