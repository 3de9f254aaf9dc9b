"""Run the fuzzer for a while: `python -m tests.fuzz --seconds 600`.

Guided by coverage where atheris is installed (it is made for x86-64), at random otherwise, from a
seed that is printed. A failure is written to `--folder` as the bytes that caused it, and
`--replay FILE` runs it again.
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

from ..memory import peak_mb

MOST_SECONDS = 60.0
"""For one damaged trace, on whatever machine."""


def main() -> int:
    """Command line; 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--cases", type=int, help="so many at random, instead of for some time")
    parser.add_argument("--seed", type=int, help="of the cases  [default: another each time]")
    parser.add_argument("--replay", type=Path, help="bytes that caused a failure")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    seed = random.randrange(2**31) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    atheris = None if arguments.cases is not None else _atheris()
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
        if arguments.cases is not None:
            return _cases(one, arguments.cases, seed, path)
        if atheris is None:
            return _random(one, arguments.seconds, seed, arguments.folder)
        return _guided(atheris, one, arguments.seconds, seed, arguments.folder)


def _atheris() -> Any:
    try:
        return importlib.import_module("atheris")
    except ImportError:
        print("atheris is not installed: damage at random.")
        return None


def _guided(
    atheris: Any, one: Callable[[bytes], str], seconds: float, seed: int, folder: Path
) -> int:
    def quietly(data: bytes) -> None:
        one(data)

    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    flags = [
        f"-max_total_time={int(seconds)}",
        f"-seed={seed}",
        f"-artifact_prefix={folder}/",
        *("-max_len=400", "-len_control=0", "-timeout=60"),
    ]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], quietly)
    # Ends the process by itself, with an exit status that tells.
    atheris.Fuzz()
    return 0


def _cases(one: Callable[[bytes], str], n: int, seed: int, path: Path) -> int:
    """Damage drawn from a seed; says what took longest and most memory. 1 where anything failed."""
    choose, outcomes, failures = random.Random(seed), Counter[str](), 0
    longest, largest = 0.0, 0
    for i in range(n):
        data = choose.randbytes(choose.randint(4, 200))
        before = time.monotonic()
        try:
            outcomes[one(data)] += 1
        except Exception:
            failures += 1
            print(f"case {i}, {data.hex()}:\n{traceback.format_exc()}", flush=True)
        longest = max(longest, time.monotonic() - before)
        largest = max(largest, path.stat().st_size)
    peak = peak_mb()
    print(dict(outcomes))
    print(f"{n} cases, {failures} failures, longest {longest:.1f} s, ", end="")
    print(f"peak {peak:.0f} MB, largest file {largest / 1e6:.1f} MB")
    return int(bool(failures) or longest > MOST_SECONDS or peak > 300 + 20 * largest / 1e6)


def _random(one: Callable[[bytes], str], seconds: float, seed: int, folder: Path) -> int:
    choose, outcomes, failures = random.Random(seed), Counter[str](), 0
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
