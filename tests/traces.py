"""Where the real traces are: our own beside the tests, others' only where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

FIXTURES = Path(__file__).parent / "fixtures"
PUBLIC = Path(__file__).parents[2] / "shared" / "traces" / "public"


def h200(name: str) -> Path:
    """One of our own H200 traces, for example `h200("jax_unroll_lhs")`, `h200("pytorch/save")`."""
    path = FIXTURES / f"{name}.sqlite"
    assert path.is_file(), f"no fixture {name}"
    return path


def h200_names() -> list[str]:
    """Names of our traces of JAX and CUDA programs."""
    return sorted(path.stem for path in FIXTURES.glob("*.sqlite"))


def programs() -> list[str]:
    """Names of our traces of PyTorch and MaxText programs, for example `pytorch/save`."""
    found = (path for room in ("pytorch", "maxtext") for path in (FIXTURES / room).glob("*.sqlite"))
    return sorted(f"{path.parent.name}/{path.stem}" for path in found)


def public_traces() -> list[object]:
    """Traces published by others as pytest parameters; one that skips where there are none."""
    found = sorted(PUBLIC.glob("*.sqlite"))
    if not found:
        reason = "the public traces are not part of the repository"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(path, id=path.stem) for path in found]
