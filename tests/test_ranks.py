"""Many traces: which files a folder stands for, ranks in names, sums, broken ones among them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nsysoverlap import analyze
from nsysoverlap.core.errors import NsysOverlapError, TraceFileError
from nsysoverlap.result.model import OverlapReport
from nsysoverlap.run.analysis import Options
from nsysoverlap.run.many import analyze_file, analyze_many, find_traces
from nsysoverlap.run.rank_names import rank_of

from .tracebuilder import build
from .traces import h200

RANK = """
    dev0 s7  compute: ####....
    dev0 s20 d2h:     ..####..
"""


def merged(paths: list[Path]) -> OverlapReport:
    report, errors = analyze_many(paths, Options())
    assert errors == []
    return report


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def names_in(folder: Path) -> list[str]:
    return [path.name for path in find_traces([folder])]


# Folders


def test_a_folder_stands_for_its_traces_in_natural_order(tmp_path: Path) -> None:
    touch(tmp_path, *(f"rank{i}.sqlite" for i in (10, 2, 0, 1, 21, 3)))
    assert names_in(tmp_path) == [f"rank{i}.sqlite" for i in (0, 1, 2, 3, 10, 21)]


def test_natural_order_of_several_numbers_and_odd_names(tmp_path: Path) -> None:
    expected = [
        "7.sqlite",
        "n1_rank2.sqlite",
        "n1_rank10.sqlite",
        "n2_rank1.sqlite",
        "n10_rank0.sqlite",
        "x1²3.sqlite",  # a superscript is a digit to Python, but no number
    ]
    touch(tmp_path, *reversed(expected))
    assert names_in(tmp_path) == expected


def test_only_traces_are_taken_from_a_folder(tmp_path: Path) -> None:
    touch(
        tmp_path,
        *("a.sqlite", "b.SQLITE", "c.nsys-rep", "d.qdrep"),
        *(".hidden.sqlite", "notes.txt", "e.sqlite-wal", "f.sqlite.gz", "deeper/g.sqlite"),
    )
    assert names_in(tmp_path) == ["a.sqlite", "b.SQLITE", "c.nsys-rep", "d.qdrep"]


def test_a_report_that_is_exported_already_is_not_taken_twice(tmp_path: Path) -> None:
    touch(tmp_path, "rank0.nsys-rep", "rank0.sqlite", "rank1.nsys-rep")
    assert names_in(tmp_path) == ["rank0.sqlite", "rank1.nsys-rep"]


def test_arguments_keep_their_order_and_count_once(tmp_path: Path) -> None:
    touch(tmp_path, "run/b.sqlite", "run/a.sqlite", "z.sqlite")
    z, run = tmp_path / "z.sqlite", tmp_path / "run"
    expected = [z, run / "a.sqlite", run / "b.sqlite"]
    assert find_traces([z, run, run / "a.sqlite", str(z)]) == expected


def test_a_file_is_taken_whatever_its_name(tmp_path: Path) -> None:
    plain, missing = tmp_path / "trace", tmp_path / "missing.sqlite"
    plain.touch()
    assert find_traces([plain, missing]) == [plain, missing]


def test_a_folder_without_traces(tmp_path: Path) -> None:
    touch(tmp_path / "logs", "readme.txt")
    with pytest.raises(TraceFileError) as caught:
        find_traces([tmp_path / "logs"])
    assert "logs: the folder holds no traces" in caught.value.message
    assert "nsys export --type sqlite" in caught.value.hint


def recipe_left(folder: Path, content: object) -> Path:
    """A folder of results as `nsys recipe` leaves it."""
    touch(folder, "rank_stats.parquet", "stats.ipynb")
    (folder / f"{folder.name}.nsys-analysis").write_text(json.dumps(content))
    return folder


def test_a_folder_of_a_recipe_stands_for_what_it_was_made_of(tmp_path: Path) -> None:
    touch(tmp_path, "r0.nsys-rep", "r0.sqlite", "r1.nsys-rep", "other.nsys-rep")
    inputs = ["r0.nsys-rep", str(tmp_path / "r1.nsys-rep")]
    left = recipe_left(tmp_path / "osrt_sum-1", {"Mode": "none", "InputFiles": inputs})
    assert names_in(left) == ["r0.sqlite", "r1.nsys-rep"]
    (tmp_path / "r1.nsys-rep").unlink()
    with pytest.raises(TraceFileError) as caught:
        find_traces([left])
    assert caught.value.message == (
        "osrt_sum-1: `nsys recipe` made it of r1.nsys-rep, which is not there any more."
    )
    touch(left, "own.sqlite")
    assert names_in(left) == ["own.sqlite"]


@pytest.mark.parametrize("content", [{}, [], 7, None, {"InputFiles": 3}, {"InputFiles": [5, "a"]}])
def test_a_folder_that_only_looks_like_a_recipe_s_holds_no_traces(
    tmp_path: Path, content: object
) -> None:
    with pytest.raises(TraceFileError, match="the folder holds no traces"):
        find_traces([recipe_left(tmp_path / "x-1", content)])


# Ranks


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.sqlite", 3),
        ("rank_03.sqlite", 3),
        ("train_rank3.sqlite", 3),
        ("train-rank-12.nsys-rep", 12),
        ("x.rank12.sqlite", 12),
        ("RANK7.sqlite", 7),
        ("job4rank5.sqlite", 5),
        ("rank.0.sqlite", 0),
        ("rank3of8.sqlite", 3),
        ("node1.procid9.sqlite", 9),
        ("step_procid_11.sqlite", 11),
        ("proc2.sqlite", 2),
        ("nproc8_rank1.sqlite", 1),
        ("rank5/trace.sqlite", 5),
        ("rank5/rank6.sqlite", 6),
        ("frank3.sqlite", None),
        ("prank3.sqlite", None),
        ("4ranks.sqlite", None),
        ("ranks4.sqlite", None),
        ("nproc8.sqlite", None),
        ("rank.sqlite", None),
        ("3.sqlite", None),
        ("ddp_two_procs.sqlite", None),
        # No integer of a database holds it.
        (f"rank{'9' * 20}.sqlite", None),
    ],
)
def test_rank_of_a_file_name(name: str, rank: int | None) -> None:
    assert rank_of(name) == rank


def test_the_report_names_ranks(tmp_path: Path) -> None:
    path = build(tmp_path / "run.rank4.sqlite", "dev0 s7 compute: ##")
    (trace,) = analyze_file(path, Options()).traces
    assert (trace.rank, trace.path) == (4, "run.rank4.sqlite")


def test_files_of_one_name_are_told_apart_by_their_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path, tmp_path / "rank0", tmp_path / "rank1"):
        folder.mkdir(exist_ok=True)
        build(folder / "t.sqlite", RANK)
    monkeypatch.chdir(tmp_path)
    report = merged([Path("t.sqlite"), Path("rank0/t.sqlite"), tmp_path / "rank1" / "t.sqlite"])
    assert [(trace.path, trace.rank) for trace in report.traces] == [
        ("t.sqlite", None),
        ("rank0/t.sqlite", 0),
        ("rank1/t.sqlite", 1),
    ]
    assert [device.trace for device in report.devices] == [trace.path for trace in report.traces]


# Sums


def two_ranks(folder: Path) -> list[Path]:
    second = RANK.replace("####....", "######..")
    return [build(folder / "rank0.sqlite", RANK), build(folder / "rank1.sqlite", second, pid=7)]


def test_ranks_are_added_never_averaged(tmp_path: Path) -> None:
    report = merged(two_ranks(tmp_path))
    assert [(t.path, t.rank) for t in report.traces] == [("rank0.sqlite", 0), ("rank1.sqlite", 1)]
    assert [(d.trace, d.pid) for d in report.devices] == [
        ("rank0.sqlite", 1000),
        ("rank1.sqlite", 7),
    ]
    d2h = report.total("d2h")
    assert (d2h.n, d2h.wall_ns, d2h.hidden_by_compute_ns) == (2, 8000, 2000 + 4000)
    assert d2h.hidden_share == 6 / 8
    assert report.time_budget.total_ns == 2 * 6000


def test_clocks_of_ranks_do_not_matter(tmp_path: Path) -> None:
    paths = two_ranks(tmp_path)
    before = merged(paths)
    build(paths[1], RANK.replace("####....", "######.."), pid=7, shift_ns=10**18)
    after = merged(paths)
    for direction in ("h2d", "d2h", "both"):
        assert after.total(direction) == before.total(direction)
    assert after.time_budget == before.time_budget
    assert after.devices[1].window_ns == tuple(t + 10**18 for t in before.devices[1].window_ns)


def test_the_same_trace_twice_counts_twice(tmp_path: Path) -> None:
    for i in range(3):
        shutil.copy(h200("jax_fsdp2_lhs"), tmp_path / f"rank{i}.sqlite")
    report = merged(find_traces([tmp_path]))
    alone = analyze(h200("jax_fsdp2_lhs"))
    for direction in ("h2d", "d2h", "both"):
        one = alone.total(direction)
        assert report.total(direction) == one + one + one
        assert report.total(direction).hidden_share == pytest.approx(one.hidden_share)
    assert len(report.devices) == 6
    assert len(report.health) == 3 * len(alone.health)


def test_one_opaque_rank_makes_the_whole_inconclusive() -> None:
    both = [h200("micro_hidden"), h200("micro_graph_graph")]
    assert not merged(both).conclusive
    assert merged(both[:1]).conclusive
    blamed = [e.trace for e in merged(both).health if e.severity == "error"]
    assert blamed == ["micro_graph_graph.sqlite"]


# Broken ones


def test_one_broken_trace_among_several_is_told_and_left_out(tmp_path: Path) -> None:
    first, second = two_ranks(tmp_path)
    broken, missing = tmp_path / "rank2.sqlite", tmp_path / "rank3.sqlite"
    broken.write_text("not a trace")
    seen: list[Path] = []
    paths = [first, broken, missing, second]
    report, errors = analyze_many(paths, Options(), seen.append)
    assert [trace.rank for trace in report.traces] == [0, 1]
    assert report.total("d2h").n == 2
    assert [type(error) for error in errors] == [TraceFileError, TraceFileError]
    assert "rank2.sqlite" in errors[0].message
    assert "rank3.sqlite: no such file" in errors[1].message
    assert seen == paths
    assert not missing.exists()


def test_no_readable_trace_at_all_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "rank0.sqlite"
    broken.write_text("not a trace")
    with pytest.raises(NsysOverlapError, match=r"rank0\.sqlite"):
        analyze_many([broken, tmp_path / "rank1.sqlite"], Options())
