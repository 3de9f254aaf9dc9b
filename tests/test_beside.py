"""Work in a copy of the process: the same results, errors and end as without one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nsysoverlap.core import beside
from nsysoverlap.core.beside import Beside
from nsysoverlap.core.errors import TraceFileError
from nsysoverlap.core.threads import each
from nsysoverlap.run.analysis import Options, analyze_trace
from nsysoverlap.steps.plan import StepSpec
from nsysoverlap.trace import load

from .traces import h200

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="copies are made on Linux only"),
    # Other tests of this process load JAX, which warns of every fork; the program never loads it.
    pytest.mark.filterwarnings("ignore:os.fork\\(\\) was called:RuntimeWarning"),
]


@pytest.fixture(autouse=True)
def copies() -> Iterator[None]:
    beside.allow_copies()
    assert beside.can_copy()
    yield
    beside._allowed.clear()


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def test_a_result_with_arrays_comes_back_whole_and_can_be_changed() -> None:
    before = os.getpid(), children(), len(os.listdir("/proc/self/fd"))
    made: dict[str, Any] = {
        "a": np.arange(100_000),
        "b": [np.array([], np.int32), np.array([7], np.uint8)],
    }
    with Beside(lambda: (os.getpid(), made)) as work:
        pid, found = work.result()
    assert pid != os.getpid()
    assert np.array_equal(found["a"], made["a"])
    assert [list(one) for one in found["b"]] == [[], [7]]
    found["a"][0] = 5
    assert found["a"][0] == 5
    # The memory is given back with the arrays.
    del found
    assert (os.getpid(), children(), len(os.listdir("/proc/self/fd"))) == before


def test_an_error_is_raised_where_the_result_is_asked_for() -> None:
    def fail() -> None:
        raise TraceFileError("a.sqlite: is bad.", "Export it again.")

    with Beside(fail) as work, pytest.raises(TraceFileError, match="is bad") as raised:
        work.result()
    assert raised.value.hint == "Export it again."


def test_a_copy_that_is_killed_is_done_without() -> None:
    here = os.getpid()

    def work() -> str:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return "done here"

    with Beside(work) as one:
        assert one.result() == "done here"


def test_a_copy_nobody_asks_ends_with_its_context() -> None:
    before = children()
    with pytest.raises(KeyboardInterrupt), Beside(signal.pause):
        raise KeyboardInterrupt
    assert children() == before


def test_each_keeps_the_order() -> None:
    found = each(lambda i: (i * i, os.getpid()), range(5), 2)
    assert [square for square, _ in found] == [0, 1, 4, 9, 16]
    assert [pid == os.getpid() for _, pid in found] == [True, False, True, False, True]


@pytest.mark.parametrize("steps", ["auto", "none"])
@pytest.mark.parametrize("name", ["ddp_two_procs", "jax_fsdp2_lhs", "micro_graph_node"])
def test_two_processes_say_what_one_does(
    name: str, steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(steps=StepSpec(steps))
    monkeypatch.setattr(load, "_WORTH_A_COPY", 0)
    one, two = (load.read_trace(h200(name), threads=n) for n in (1, 2))
    assert one.host.texts == two.host.texts
    for part in ("calls", "ranges"):
        for column, values in vars(getattr(one.host, part)).items():
            assert np.array_equal(values, getattr(getattr(two.host, part), column)), column
    reports = [analyze_trace(t, options, threads=n) for t, n in ((one, 1), (two, 2))]
    assert replace(reports[0]) == reports[1]
    assert reports[0].devices[0].both.n > 0


def test_a_library_makes_no_copies() -> None:
    code = (
        "import os, sys, nsysoverlap.trace.load as load\n"
        "load._WORTH_A_COPY = 0\n"
        "def fork(): raise AssertionError\n"
        "os.fork = fork\n"
        "print(len(load.read_trace(sys.argv[1]).copies))"
    )
    command = [sys.executable, "-c", code, str(h200("micro_hidden"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 0
