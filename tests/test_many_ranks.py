"""Many ranks: which rank a file is of, processes side by side, a Dask cluster, the table."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nsysoverlap.cli import main
from nsysoverlap.core.errors import TraceFileError, UsageError
from nsysoverlap.result.model import Gpu, OverlapReport
from nsysoverlap.run.analysis import Options
from nsysoverlap.run.many import analyze_many, find_traces, try_file
from nsysoverlap.run.outcomes import Outcome
from nsysoverlap.run.pool import run_pool
from nsysoverlap.run.rank_names import rank_in, ranks_by_difference
from nsysoverlap.show.blocks import Table
from nsysoverlap.show.say_ranks import differences, rank_rows, ranks_section, worst_rank

from .gatekit import large_trace, split_trace, step_trace
from .sample_reports import many_devices
from .stepreports import report_of_ranks
from .tracebuilder import draw

REPO = Path(__file__).parents[1]
RANK = """
    dev0 s7  compute: ####....
    dev0 s20 d2h:     ..####..
"""


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def ranks(folder: Path, n: int) -> list[Path]:
    folder.mkdir(exist_ok=True)
    return [
        split_trace(folder / f"rank{i}.sqlite", d2h=(1_000 * i, 10_000), pid=100 + i)
        for i in range(n)
    ]


# Which files.


def test_a_pattern_stands_for_the_traces_it_matches(tmp_path: Path) -> None:
    paths = ranks(tmp_path / "run", 3)
    for name in ("rank3.nsys-rep", "rank1.nsys-rep", "notes.txt", "rank9.txt"):
        (tmp_path / "run" / name).touch()
    found = find_traces([tmp_path / "run" / "rank*"])
    assert found == [*paths, tmp_path / "run" / "rank3.nsys-rep"]
    assert find_traces([tmp_path / "r?n" / "rank[01].sqlite"]) == paths[:2]
    assert find_traces([tmp_path / "**" / "*.sqlite"]) == paths


def test_ranks_of_several_folders_are_in_natural_order(tmp_path: Path) -> None:
    for i in (10, 2, 0):
        (tmp_path / f"node{i}").mkdir()
        (tmp_path / f"node{i}" / "t.sqlite").touch()
    found = find_traces([tmp_path / "node*" / "*.sqlite"])
    assert [path.parent.name for path in found] == ["node0", "node2", "node10"]


def test_a_file_named_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    odd = tmp_path / "rank[0].sqlite"
    odd.touch()
    assert find_traces([odd]) == [odd]


def test_a_pattern_without_matches(tmp_path: Path) -> None:
    result = run("report", tmp_path / "rank*.sqlite")
    assert result.exit_code == 2
    assert "rank*.sqlite: the pattern matches no traces" in result.stderr


# Which rank.


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["run.0.sqlite", "run.1.sqlite"], [0, 1]),
        (["3.sqlite", "10.sqlite"], [3, 10]),
        (["j77_00.sqlite", "j77_01.sqlite"], None),
        (["j-77-00.sqlite", "j-77-01.sqlite"], [0, 1]),
        (["a_2025_0.sqlite", "a_2025_1.sqlite"], [0, 1]),
        (["a_1_0.sqlite", "a_2_1.sqlite"], None),
        (["a_1.sqlite", "b_2.sqlite"], None),
        (["a1.sqlite", "a2.sqlite"], None),
        (["a_1.sqlite"], None),
        (["0/t.sqlite", "1/t.sqlite"], None),
    ],
)
def test_ranks_of_files_that_differ_in_one_number(
    names: list[str], expected: list[int] | None
) -> None:
    wanted = dict(zip(names, expected, strict=True)) if expected else {}
    if names[0].startswith("j77_"):
        wanted = {"j77_00.sqlite": 0, "j77_01.sqlite": 1}
    assert ranks_by_difference(names) == wanted


@pytest.mark.parametrize(
    ("capture", "rank"),
    [
        ({}, None),
        ({"SLURM_PROCID": "7"}, 7),
        ({"RANK": "3", "SLURM_PROCID": "7"}, 7),
        ({"RANK": "3"}, 3),
        ({"RANK": "0, 1"}, None),
        ({"RANK": "x"}, None),
        ({"JAX_PROCESS_ID": "2"}, 2),
        ({"JAX_PROCESS_ID": "9" * 5000, "RANK": "3"}, 3),
    ],
)
def test_rank_in_the_environment(capture: dict[str, str], rank: int | None) -> None:
    assert rank_in(capture) == rank


def test_ranks_by_name_by_environment_and_by_difference(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for i in range(3):
        builder = draw(RANK)
        builder.write(plain / f"run.{i}.sqlite", "3.20")
        builder.env("SLURM_PROCID", str(i + 5))
        builder.write(tmp_path / f"{'abc'[i]}.sqlite", "3.20")
    found, _ = analyze_many(find_traces([plain]), Options())
    assert [trace.rank for trace in found.traces] == [0, 1, 2]
    found, _ = analyze_many(find_traces([tmp_path / "?.sqlite"]), Options())
    assert [trace.rank for trace in found.traces] == [5, 6, 7]


def test_two_files_of_one_rank_are_refused_before_any_is_read(tmp_path: Path) -> None:
    for name in ("rank1.sqlite", "old_rank1.sqlite"):
        (tmp_path / name).write_text("never read")
    result = run("report", tmp_path)
    assert result.exit_code == 2
    assert "old_rank1.sqlite and rank1.sqlite: both are rank 1." in result.stderr
    assert "nsysoverlap compare" in result.stderr


def test_two_traces_of_one_rank_by_their_environment_are_refused(tmp_path: Path) -> None:
    builder = draw(RANK)
    builder.env("RANK", "4")
    paths = [builder.write(tmp_path / f"{name}.sqlite", "3.20") for name in "ab"]
    with pytest.raises(TraceFileError, match=r"a\.sqlite and b\.sqlite: both are rank 4"):
        analyze_many(paths, Options())


# Processes.


def test_processes_say_what_one_process_says(tmp_path: Path) -> None:
    paths = ranks(tmp_path / "run", 5)
    done: list[Path] = []
    several, errors = analyze_many(paths, Options(), done.append, jobs=2)
    assert (several, errors) == analyze_many(paths, Options())
    assert sorted(done) == paths
    assert [device.trace for device in several.devices] == [path.name for path in paths]


def test_a_broken_trace_among_processes(tmp_path: Path) -> None:
    paths = ranks(tmp_path, 4)
    paths[2].write_text("broken")
    report, errors = analyze_many(paths, Options(), jobs=2)
    assert [trace.rank for trace in report.traces] == [0, 1, 3]
    assert ["rank2.sqlite" in error.message for error in errors] == [True]
    assert errors[0].hint


def test_report_names_and_skips_a_broken_rank_unless_strict(tmp_path: Path) -> None:
    ranks(tmp_path, 3)[1].write_text("broken")
    result = run("report", tmp_path, "--jobs", "2")
    assert result.exit_code == 0
    assert result.stderr.startswith("Skipped: rank1.sqlite: ")
    assert run("report", tmp_path, "--jobs", "2", "--strict").exit_code == 2
    assert run("gate", tmp_path, "--min-hidden", "0", "--jobs", "2").exit_code == 3


def kill_own_process(path: Path, options: Options, name: str, threads: int) -> Outcome:
    """As `try_file`, but reading rank 2 costs the process its life."""
    if name == "rank2.sqlite":
        os.kill(os.getpid(), signal.SIGKILL)
    return try_file(path, options, name, threads)


def test_a_process_that_dies_costs_only_its_own_trace(tmp_path: Path) -> None:
    paths = ranks(tmp_path, 5)
    names = [path.name for path in paths]
    found = dict(run_pool(kill_own_process, paths, names, Options(), 2))
    assert sorted(found) == [0, 1, 2, 3, 4]
    lost = found.pop(2)
    assert isinstance(lost, TraceFileError)
    assert "rank2.sqlite: the process that read it was killed." in lost.message
    assert all(isinstance(outcome, OverlapReport) for outcome in found.values())


def children_of(pid: int) -> set[int]:
    """All processes below one, however deep."""
    found: set[int] = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            child = int(status.parent.name)
            found |= {child} | children_of(child)
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.001)


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists() and not zombie(pid)}


def zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of ranks that take a minute to read."""
    folder = tmp_path_factory.mktemp("large")
    first = large_trace(folder / "rank0.sqlite", 100_000)
    for i in range(1, 300):
        os.link(first, folder / f"rank{i}.sqlite")
    return folder


def reads_a_rank(pid: int) -> bool:
    try:
        files = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any("/rank" in file for file in files)


def at_work(pid: int) -> bool:
    return sum(reads_a_rank(child) for child in children_of(pid)) == 2


def starting(pid: int) -> bool:
    """Its first process, beside the one that tracks semaphores, has only just been started."""
    return len(children_of(pid)) >= 2


def end(pid: int, number: signal.Signals) -> None:
    os.kill(pid, number)


def end_group(pid: int, number: signal.Signals) -> None:
    """As Ctrl-C and most schedulers do, with all processes at once."""
    os.killpg(pid, number)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [starting, at_work])
@pytest.mark.parametrize(
    ("send", "number", "code"),
    [
        (end, signal.SIGINT, 130),
        (end_group, signal.SIGINT, 130),
        (end, signal.SIGTERM, 143),
        (end_group, signal.SIGTERM, 143),
        (end_group, signal.SIGHUP, 129),
        (end, signal.SIGKILL, -9),
    ],
)
def test_no_stray_processes_are_left(
    large: Path,
    send: Callable[[int, signal.Signals], None],
    number: signal.Signals,
    code: int,
    moment: Callable[[int], bool],
) -> None:
    command = [sys.executable, "-m", "nsysoverlap", "report", str(large), "--jobs", "2"]
    with subprocess.Popen(
        command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        wait_until(lambda: moment(process.pid))
        children = children_of(process.pid)
        send(process.pid, number)
        stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == code
    assert stdout == b""
    # Of a killed parent's semaphores, and of a child half started, Python itself speaks.
    if number != signal.SIGKILL:
        assert stderr == b""
    elif moment is at_work:
        assert b"Traceback" not in stderr
    wait_until(lambda: not alive(children))


def test_an_interrupt_between_two_results_ends_the_pool(large: Path) -> None:
    """Also while somebody still holds its traceback, and with it what waits for results."""

    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        analyze_many(find_traces([large]), Options(), interrupted, jobs=2)
    assert multiprocessing.active_children() == []


# A Dask cluster.


@contextmanager
def cluster(n_workers: int) -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        silence_logs=50,
    ) as found:
        yield found


DASK_S = 29
"""Dask itself gives up after 30 s, or never."""
# Dask leaves sockets for the garbage collector when its processes are killed.
DASK = pytest.mark.filterwarnings("ignore")


@pytest.mark.slow
@DASK
@pytest.mark.usefixtures("patient")
def test_a_cluster_says_what_one_process_says(tmp_path: Path) -> None:
    paths = ranks(tmp_path / "run", 4)
    paths.append(tmp_path / "run" / "rank4.sqlite")
    paths[-1].write_text("broken")
    with cluster(2) as dask:
        report, errors = analyze_many(paths, Options(), dask=dask.scheduler_address)
        result = run("report", tmp_path / "run", "--dask", dask.scheduler_address)
    expected, expected_errors = analyze_many(paths, Options())
    assert report == expected
    assert [error.message for error in errors] == [error.message for error in expected_errors]
    assert result.exit_code == 0
    assert "Skipped: rank4.sqlite" in result.stderr


def kill_first_process(path: Path, options: Options, name: str, threads: int) -> Outcome:
    """As `try_file`, but the first to read rank 2 does not live to tell."""
    mark = path.with_name("killed")
    if name == "rank2.sqlite" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return try_file(path, options, name, threads)


@pytest.mark.slow
@DASK
@pytest.mark.usefixtures("patient")
def test_a_lost_worker_s_trace_is_read_by_another(tmp_path: Path) -> None:
    from nsysoverlap.run.cluster import run_cluster

    paths = ranks(tmp_path, 5)
    names = [path.name for path in paths]
    with cluster(2) as dask:
        address = dask.scheduler_address
        found = dict(run_cluster(kill_first_process, paths, names, Options(), address))
    assert (tmp_path / "killed").exists()
    assert found == {
        i: try_file(path, Options(), name, 1)
        for i, (path, name) in enumerate(zip(paths, names, strict=True))
    }
    assert {type(outcome) for outcome in found.values()} == {OverlapReport}


@pytest.mark.slow
@DASK
@pytest.mark.usefixtures("patient")
def test_a_trace_that_costs_every_worker_is_an_error(tmp_path: Path) -> None:
    from nsysoverlap.run.cluster import run_cluster

    paths = ranks(tmp_path, 4)
    names = [path.name for path in paths]
    with cluster(2) as dask:
        found = dict(run_cluster(kill_own_process, paths, names, Options(), dask.scheduler_address))
    lost = found.pop(2)
    assert isinstance(lost, TraceFileError)
    assert "rank2.sqlite: every Dask worker that read it was lost." in lost.message
    assert all(isinstance(outcome, OverlapReport) for outcome in found.values())


def die_as_often_as_dask_bears(path: Path, options: Options, name: str, threads: int) -> Outcome:
    """As `try_file`, but for rank 1 four workers are lost, as a neighbour could cost them."""
    if name == "rank1.sqlite":
        with path.with_name("lives").open("a") as lives:
            lives.write("x")
        if path.with_name("lives").stat().st_size <= 4:
            os.kill(os.getpid(), signal.SIGKILL)
    return try_file(path, options, name, threads)


@pytest.mark.slow
@DASK
@pytest.mark.usefixtures("patient")
def test_what_dask_gives_up_is_read_alone(tmp_path: Path) -> None:
    from nsysoverlap.run.cluster import run_cluster

    work, paths = die_as_often_as_dask_bears, ranks(tmp_path, 2)
    names = [path.name for path in paths]
    with cluster(2) as dask:
        found = dict(run_cluster(work, paths, names, Options(), dask.scheduler_address))
    assert (tmp_path / "lives").read_text() == "xxxxx"
    assert sorted(found) == [0, 1]
    assert all(isinstance(outcome, OverlapReport) for outcome in found.values())


PATIENCE = "nsysoverlap.run.cluster.CONNECT_S"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves most of `DASK_S` to a busy machine."""
    monkeypatch.setattr(PATIENCE, 1)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take its time to answer."""
    monkeypatch.setattr(PATIENCE, 120)


@pytest.mark.slow
@DASK
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "127.0.0.1:9", "nowhere", "x://y:1"])
def test_a_scheduler_that_cannot_be_reached(tmp_path: Path, address: str) -> None:
    pytest.importorskip("distributed")
    split_trace(tmp_path / "t.sqlite", d2h=(1, 2))
    start = time.monotonic()
    result = run("report", tmp_path, "--dask", address)
    assert time.monotonic() - start < DASK_S
    assert result.exit_code == 2
    assert f"The Dask scheduler {address} cannot be reached." in result.stderr


@pytest.mark.slow
@DASK
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_something_else_that_listens(tmp_path: Path, answer: bytes) -> None:
    pytest.importorskip("distributed")
    path = split_trace(tmp_path / "t.sqlite", d2h=(1, 2))
    held = []

    def serve() -> None:
        while True:
            try:
                held.append(server.accept()[0])
                held[-1].sendall(answer)
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        start = time.monotonic()
        with pytest.raises(UsageError, match="cannot be reached"):
            analyze_many([path], Options(), dask=f"127.0.0.1:{server.getsockname()[1]}")
        assert time.monotonic() - start < DASK_S
    for connection in held:
        connection.close()


@pytest.mark.slow
@DASK
def test_a_scheduler_without_workers(tmp_path: Path) -> None:
    path = split_trace(tmp_path / "t.sqlite", d2h=(1, 2))
    with cluster(0) as dask, pytest.raises(UsageError, match="has no workers"):
        analyze_many([path], Options(), dask=dask.scheduler_address)


def test_without_dask_it_says_what_to_install(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    split_trace(tmp_path / "t.sqlite", d2h=(1, 2))
    result = run("report", tmp_path, "--dask", "tcp://x:1")
    assert result.exit_code == 2
    assert "pip install distributed" in result.stderr


# The table of ranks.


def the_table(report: OverlapReport) -> Table:
    (block,) = ranks_section(report)
    assert isinstance(block, Table)
    return block


def test_rows_of_ranks() -> None:
    report = report_of_ranks([(90, 100)] * 3, [(50, 100), (10, 100), (30, 100)])
    first, second = rank_rows(report)
    assert (first.name, first.exposed_ns, first.step_ns) == ("rank 0", 10, 1000)
    assert (second.name, second.exposed_ns) == ("rank 1", 70)
    assert second.d2h.hidden_share == 0.3
    assert worst_rank([first, second]) is second


def test_what_is_different_about_the_worst_rank() -> None:
    report = report_of_ranks([(90, 100)], [(90, 100)], [(40, 200)], [(90, 100)])
    rows = rank_rows(report)
    found = {d.what: (d.value, d.others) for d in differences(rows, rows[2])}
    assert found == {
        "D2H bytes": (Fraction(10_000), Fraction(5_000)),
        "D2H behind compute": (Fraction(1, 5), Fraction(9, 10)),
    }


def test_the_section_shows_spread_and_names_the_worst() -> None:
    table = the_table(report_of_ranks([(90, 100)], [(90, 100)], [(40, 100)]))
    assert [row[0] for row in table.rows] == ["min", "median", "max", "rank 0", "rank 1", "rank 2"]
    assert [row[3] for row in table.rows[:3]] == ["40.0 %", "90.0 %", "90.0 %"]
    assert table.note == (
        "Worst: rank 2 with 60 ns exposed. Different from the median of the others: "
        "D2H behind compute 40.0 % against 90.0 %."
    )


def test_another_gpu_is_named_first() -> None:
    report = report_of_ranks([(90, 100)], [(90, 100)], [(40, 100)])
    slow = replace(report.devices[2], gpu=Gpu(name="NVIDIA H100"))
    table = the_table(replace(report, devices=(*report.devices[:2], slow)))
    assert "others: it ran on NVIDIA H100, others on NVIDIA H200; D2H" in table.note


def test_of_many_ranks_only_the_worst_are_shown() -> None:
    table = the_table(many_devices())
    assert table.title == "Ranks, 64, the 5 most exposed"
    assert table.rows[3][0] == "rank 12"
    assert len(table.rows) == 3 + 5


def test_one_rank_has_no_table() -> None:
    assert ranks_section(report_of_ranks([(90, 100)])) == []


def test_equal_ranks_and_ranks_without_exposed_time() -> None:
    table = the_table(report_of_ranks([(90, 100)], [(90, 100)]))
    assert table.note.endswith("otherwise it is like the median of the others.")
    table = the_table(report_of_ranks([(100, 100)], [(100, 100)]))
    assert table.note == "No rank has exposed transfers."


def test_gate_over_processes_asks_the_worst_rank(tmp_path: Path) -> None:
    for i in range(3):
        step_trace(tmp_path / f"rank{i}.sqlite", [90 - 30 * (i == 1)] * 4)
    limit = "d2h.hidden@worst-rank >= 70%"
    result = run("gate", tmp_path, "--require", limit, "--jobs", "2")
    assert result.exit_code == 1
    assert "(rank 1)" in result.stdout
