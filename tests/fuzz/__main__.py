"""Run the fuzzer for a while: `python -m tests.fuzz --seconds 600`.

Guided by coverage where atheris is installed (an x86-64 development tool), at random otherwise.
A failure is written to `--folder` as the bytes that caused it, and `--replay FILE` runs it again.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from .damage import bases, check, damage


def main() -> int:
    """Command line; 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--replay", type=Path, help="bytes that caused a failure")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exports = [
            builder.write(folder / f"{i}.sqlite").read_bytes() for i, builder in enumerate(bases())
        ]
        if arguments.replay is not None:
            print(check(damage(arguments.replay.read_bytes(), exports, folder / "t.sqlite")))
            return 0
        if _has_atheris():
            return _guided(arguments, exports, folder)
        return _random(arguments, exports, folder)


def _has_atheris() -> bool:
    try:
        import atheris  # noqa: F401
    except ImportError:
        return False
    return True


def _guided(arguments: argparse.Namespace, exports: list[bytes], folder: Path) -> int:
    import atheris

    def one(data: bytes) -> None:
        check(damage(data, exports, folder / "t.sqlite"))

    atheris.instrument_all()
    corpus = arguments.folder / "corpus"
    corpus.mkdir(exist_ok=True)
    flags = [
        f"-max_total_time={int(arguments.seconds)}",
        "-max_len=400",
        "-timeout=60",
        f"-artifact_prefix={arguments.folder}/",
    ]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], one)
    atheris.Fuzz()
    return 0


def _random(arguments: argparse.Namespace, exports: list[bytes], folder: Path) -> int:
    print("atheris is not installed: damage at random.")
    choose, outcomes, failures = random.Random(), Counter[str](), 0
    until = time.monotonic() + arguments.seconds
    while time.monotonic() < until:
        data = choose.randbytes(choose.randint(4, 200))
        try:
            outcomes[check(damage(data, exports, folder / "t.sqlite"))] += 1
        except Exception:
            failures += 1
            kept = arguments.folder / f"failure-{data.hex()[:16]}"
            kept.write_bytes(data)
            print(f"{kept}:\n{traceback.format_exc()}")
    print(dict(outcomes), f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
