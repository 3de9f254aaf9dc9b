"""The nsys command lines, finishing what nsys leaves, and the window that it records."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from capture import nsys
from capture.errors import CaptureError, RefusedError
from capture.launch import worker_command
from capture.profiler import Window, runtime_candidates

from ..traces import h200
from .kit import build_cudart, spec_for, tiny


def test_the_command_that_records() -> None:
    command = nsys.profile_command(Path("/opt/nsys"), Path("/out/lhs/trace"), ["python", "-m", "x"])
    assert command == [
        "/opt/nsys",
        "profile",
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop",
        "--cuda-graph-trace=node",
        "--trace=cuda,nvtx",
        "--sample=none",
        "--cpuctxsw=none",
        "--force-overwrite=true",
        "--output=/out/lhs/trace",
        "python",
        "-m",
        "x",
    ]


def test_the_commands_that_import_and_export() -> None:
    assert nsys.export_command(Path("/opt/nsys"), Path("/out/trace.nsys-rep")) == [
        "/opt/nsys",
        "export",
        "--type=sqlite",
        "--force-overwrite=true",
        "--output=/out/trace.sqlite",
        "/out/trace.nsys-rep",
    ]
    assert nsys.import_command(Path("/opt/QdstrmImporter"), Path("/out/trace.qdstrm")) == [
        "/opt/QdstrmImporter",
        "-i",
        "/out/trace.qdstrm",
        "-o",
        "/out/trace.nsys-rep",
    ]


def test_every_rank_has_a_recording_of_its_own(tmp_path: Path) -> None:
    spec = spec_for(tiny(), "lhs", tmp_path, processes=4, rank=3)
    command = worker_command(spec, Path("/opt/nsys"))
    assert f"--output={tmp_path}/rank3" in command
    assert command[-1] == f"{tmp_path}/spec.rank3.json"
    alone = worker_command(spec_for(tiny(), "lhs", tmp_path), None)
    assert alone[1:] == ["-m", "capture.worker", f"{tmp_path}/spec.json"]


def test_a_stream_is_imported_and_exported(
    fake_nsys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_EXPORT", str(h200("micro_hidden")))
    (tmp_path / "trace.qdstrm").write_text("stream", encoding="utf-8")
    (tmp_path / "libdw").mkdir()
    export = nsys.finish(fake_nsys, tmp_path / "trace", tmp_path)
    assert export.read_bytes() == h200("micro_hidden").read_bytes()
    assert not (tmp_path / "trace.qdstrm").exists()


def test_a_missing_library_of_the_importer_is_named(fake_nsys: Path, tmp_path: Path) -> None:
    (tmp_path / "trace.qdstrm").write_text("stream", encoding="utf-8")
    with pytest.raises(CaptureError, match=r"import failed with status 1") as raised:
        nsys.finish(fake_nsys, tmp_path / "trace")
    assert raised.value.hint == "Give a folder that holds libdw.so.1 with --nsys-libs."
    assert (tmp_path / "trace.qdstrm").exists()


def test_no_recording_and_no_importer_are_said(fake_nsys: Path, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="nsys left no recording"):
        nsys.finish(fake_nsys, tmp_path / "trace")
    (tmp_path / "trace.qdstrm").write_text("stream", encoding="utf-8")
    shutil.rmtree(fake_nsys.parents[1] / "linux-desktop-glibc_2_11_3-x64")
    with pytest.raises(CaptureError, match="no QdstrmImporter beside it"):
        nsys.finish(fake_nsys, tmp_path / "trace")


def test_an_export_that_fails_is_said(fake_nsys: Path, tmp_path: Path) -> None:
    (tmp_path / "trace.nsys-rep").write_text("not a report", encoding="utf-8")
    with pytest.raises(CaptureError, match=r"export failed with status 1: AssertionError"):
        nsys.finish(fake_nsys, tmp_path / "trace")


def test_the_window_is_opened_and_closed(tmp_path: Path) -> None:
    window = Window([("libnone.so", "cudaProfiler"), (str(build_cudart(tmp_path)), "cudaProfiler")])
    assert window.library == "libcudart.so"
    with window.recording():
        pass


def test_an_error_of_cuda_is_not_passed_over(tmp_path: Path) -> None:
    window = Window([(str(build_cudart(tmp_path, status_of_stop=37)), "cudaProfiler")])
    with (
        pytest.raises(RefusedError, match="could not stop the profiler: error 37"),
        window.recording(),
    ):
        pass


def test_no_cuda_runtime_is_refused() -> None:
    # A library without the two functions is none, either.
    with pytest.raises(RefusedError, match="No CUDA runtime library was found") as raised:
        Window([("libnone.so", "cudaProfiler"), ("libc.so.6", "cudaProfiler")])
    assert raised.value.hint == "Looked for: libnone.so, libc.so.6."


def test_where_the_runtime_is_looked_for() -> None:
    names = [name for name, _ in runtime_candidates()]
    assert names[:3] == ["libcudart.so", "libcudart.so.13", "libcudart.so.12"]
    assert runtime_candidates()[-1] == ("libcuda.so.1", "cuProfiler")
