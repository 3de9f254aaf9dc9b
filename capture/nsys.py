"""nsys command lines, and finishing what nsys leaves: import of a `.qdstrm`, export to SQLite."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from nsysoverlap.core.processes import run_group
from nsysoverlap.trace.nsys_export import find_nsys

from .errors import CaptureError, RefusedError

IMPORTER_PATTERNS = (
    "../linux-desktop-glibc_*/QdstrmImporter",
    "../host-linux-*/QdstrmImporter",
    "QdstrmImporter",
)
LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "lib", "")
IMPORT_TIMEOUT_S = 300


def require_nsys() -> Path:
    """The nsys to record with. Raises `RefusedError` where there is none."""
    nsys = find_nsys()
    if nsys is None:
        raise RefusedError(
            "No nsys was found (NSYS variable, PATH, Nsight Compute and Nsight Systems folders).",
            "Install Nsight Systems or set NSYS; --no-trace runs and times without a recording.",
        )
    return nsys


def profile_command(nsys: Path, output: Path, command: Sequence[str]) -> list[str]:
    """`command` under nsys, recording only between the profiler calls, without CPU samples.

    `output` has no suffix. Stopping must not end the process, so the range ends with `stop`; CPU
    sampling would make the file a thousand times larger.
    """
    return [
        str(nsys),
        "profile",
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop",
        "--cuda-graph-trace=node",
        "--trace=cuda,nvtx",
        "--sample=none",
        "--cpuctxsw=none",
        "--force-overwrite=true",
        f"--output={output}",
        *command,
    ]


def export_command(nsys: Path, report: Path) -> list[str]:
    """The export of `report` to SQLite beside it."""
    return [
        str(nsys),
        "export",
        "--type=sqlite",
        "--force-overwrite=true",
        f"--output={report.with_suffix('.sqlite')}",
        str(report),
    ]


def import_command(importer: Path, stream: Path) -> list[str]:
    """The import that `nsys profile` could not do itself."""
    return [str(importer), "-i", str(stream), "-o", str(stream.with_suffix(".nsys-rep"))]


def import_environment(importer: Path, libraries: Path | None) -> dict[str, str]:
    """The environment for the importer; `libraries` is an unpacked root or a plain folder."""
    folders = [str(importer.parent)]
    if libraries is not None:
        folders = [
            str(libraries / f) for f in LIBRARY_FOLDERS if (libraries / f).is_dir()
        ] + folders
    inherited = os.environ.get("LD_LIBRARY_PATH")
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(folders + ([inherited] if inherited else []))}


def find_importer(nsys: Path) -> Path | None:
    """The importer that belongs to this nsys."""
    real = nsys.resolve()
    for pattern in IMPORTER_PATTERNS:
        found = sorted(real.parent.glob(pattern))
        if found:
            return found[-1].resolve()
    return None


def finish(nsys: Path, stem: Path, libraries: Path | None = None) -> Path:
    """The SQLite export of the recording `stem`, importing and exporting as far as needed.

    Raises `CaptureError` that says which step failed and why.
    """
    report = stem.parent / f"{stem.name}.nsys-rep"
    stream = stem.parent / f"{stem.name}.qdstrm"
    if not report.is_file():
        if not stream.is_file():
            raise CaptureError(
                f"{stem.name}: nsys left no recording.",
                "See the end of the log; the window may never have been opened.",
            )
        _import(nsys, stream, libraries)
    _run(export_command(nsys, report), "export", dict(os.environ))
    export = report.with_suffix(".sqlite")
    if not export.is_file():
        raise CaptureError(f"{report.name}: nsys export wrote no file.", "Export it by hand.")
    stream.unlink(missing_ok=True)
    return export


def _import(nsys: Path, stream: Path, libraries: Path | None) -> None:
    importer = find_importer(nsys)
    if importer is None:
        raise CaptureError(
            f"{stream.name} has to be imported, and nsys has no QdstrmImporter beside it.",
            "Open it with the graphical Nsight Systems, or record with a complete installation.",
        )
    _run(import_command(importer, stream), "import", import_environment(importer, libraries))
    if not stream.with_suffix(".nsys-rep").is_file():
        raise CaptureError(f"{stream.name}: the importer wrote no report.", "Import it by hand.")


def _run(command: list[str], verb: str, environment: Mapping[str, str]) -> None:
    try:
        done = run_group(command, environment, timeout_s=IMPORT_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CaptureError(f"The {verb} could not be run: {error}.", "Run it by hand.") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        missing = re.search(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object", done.stderr)
        raise CaptureError(
            f"The {verb} failed with status {done.returncode}: {said[-1]}",
            f"Give a folder that holds {missing[1]} with --nsys-libs."
            if missing
            else "Run it by hand to see all it says.",
        )
