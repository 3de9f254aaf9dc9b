"""Run the fuzzer for a while: `python -m tests.fuzz --seconds 600`.

Guided by coverage where atheris is installed (an x86-64 development tool), at random otherwise.
A failure is written to `--folder` as the bytes that caused it, and `--replay FILE` runs it again.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any


def main() -> int:
    """Command line; 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--replay", type=Path, help="bytes that caused a failure")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    atheris = _atheris()
    guided = atheris.instrument_imports(include=["nsysoverlap"]) if atheris else nullcontext()
    with guided:
        from .damage import bases, check, damage
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "t.sqlite"
        exports = [builder.write(path).read_bytes() for builder in bases()]

        def one(data: bytes) -> str:
            return check(damage(data, exports, path))

        if arguments.replay is not None:
            print(one(arguments.replay.read_bytes()))
            return 0
        if atheris is None:
            return _random(one, arguments.seconds, arguments.folder)
        return _guided(atheris, one, arguments.seconds, arguments.folder)


def _atheris() -> Any:
    try:
        return importlib.import_module("atheris")
    except ImportError:
        print("atheris is not installed: damage at random.")
        return None


def _guided(atheris: Any, one: Callable[[bytes], str], seconds: float, folder: Path) -> int:
    def quietly(data: bytes) -> None:
        one(data)

    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    flags = [
        f"-max_total_time={int(seconds)}",
        f"-artifact_prefix={folder}/",
        *("-max_len=400", "-len_control=0", "-timeout=60"),
    ]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], quietly)
    # Ends the process by itself, with an exit status that tells.
    atheris.Fuzz()
    return 0


def _random(one: Callable[[bytes], str], seconds: float, folder: Path) -> int:
    choose, outcomes, failures = random.Random(), Counter[str](), 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        data = choose.randbytes(choose.randint(4, 200))
        try:
            outcomes[one(data)] += 1
        except Exception:
            failures += 1
            kept = folder / f"failure-{data.hex()[:16]}"
            kept.write_bytes(data)
            print(f"{kept}:\n{traceback.format_exc()}")
    print(dict(outcomes), f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
