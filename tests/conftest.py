"""Shared by all tests: a fixed terminal width, signals as at a terminal, and golden files."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent

# A busy machine is no failure, and a commit that passed once passes again; `make fuzz` tries
# other examples each time.
for name, more in (("same", {"derandomize": True}), ("search", {"max_examples": 1000})):
    settings.register_profile(
        name, deadline=None, suppress_health_check=[HealthCheck.too_slow], **more
    )
settings.load_profile("same")

# A shell ignores Ctrl-C for what it starts in the background, nohup ignores SIGHUP, and both are
# handed down to every process that tests start: sent signals would change nothing.
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(number) == signal.SIG_IGN:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, usual)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="run only what keeps its expected output in a file (golden reports and pictures, "
        "notebooks), and write these files from what the code says now; review the diff",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`--update-golden` runs every test that can write what it expects, and no other."""
    if config.getoption("--update-golden"):
        writes = [isinstance(i, pytest.Function) and "renewing" in i.fixturenames for i in items]
        config.hook.pytest_deselected(
            items=[i for i, kept in zip(items, writes, strict=True) if not kept]
        )
        items[:] = [item for item, kept in zip(items, writes, strict=True) if kept]


@pytest.fixture
def renewing(request: pytest.FixtureRequest) -> bool:
    """Whether a test is to write the file that it compares with."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may depend on the terminal, the CI system or the programs that the tests run with."""
    monkeypatch.setenv("COLUMNS", "80")
    for name in (
        *("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
        *("CI", "GITHUB_STEP_SUMMARY", "NSYSOVERLAP_DEBUG", "NSYS", "MPLBACKEND"),
    ):
        monkeypatch.delenv(name, raising=False)


def _all_may_enter(folder: Path) -> bool:
    return folder.is_dir() and all(f.stat().st_mode & 0o001 for f in (folder, *folder.parents))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder every user may enter, unlike pytest's: for root, who becomes another user there."""
    places = (Path(name) for name in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"))
    place = next((place for place in places if os.geteuid() or _all_may_enter(place)), None)
    if place is None:
        pytest.skip("no folder here that every user may enter")
    with tempfile.TemporaryDirectory(dir=place) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def golden(renewing: bool) -> Callable[[str, str], None]:
    """Compare a text with `tests/golden/NAME`; a mismatch is kept as `tests/actual/NAME`."""

    def check(name: str, actual: str) -> None:
        expected_file = HERE / "golden" / name
        if renewing:
            expected_file.parent.mkdir(exist_ok=True)
            expected_file.write_text(actual, encoding="utf-8", newline="\n")
            return
        expected = expected_file.read_text(encoding="utf-8") if expected_file.exists() else ""
        if actual != expected:
            actual_file = HERE / "actual" / name
            actual_file.parent.mkdir(exist_ok=True)
            actual_file.write_text(actual, encoding="utf-8", newline="\n")
        assert actual == expected, f"see tests/actual/{name}, or run `make golden`"

    return check
