"""Turn a `.nsys-rep` report into an SQLite export by running `nsys export`, with a cache.

Only base names appear in errors, for paths can name people and machines; the one exception
is the command to run by hand, which names the report as the caller did.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import ExportError
from ..core.interrupts import interrupts_held

if TYPE_CHECKING:
    from subprocess import CompletedProcess

# What runs nsys is imported where that is done: most traces are exports already.

REPORT_SUFFIXES = (".nsys-rep", ".qdrep")

# Where NVIDIA's installers put an nsys that is not on PATH.
INSTALL_PATTERNS = (
    "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
    "/usr/local/cuda*/nsight-compute*/host/target-linux-*/nsys",
    "/opt/nvidia/nsight-systems/*/bin/nsys",
    "/opt/nvidia/nsight-systems-cli/*/bin/nsys",
    "/usr/local/cuda*/nsight-systems*/bin/nsys",
    "/usr/local/cuda*/bin/nsys",
)


STALE_S = 60.0
"""How much newer than its export a report is for sure another one: copying takes its time."""


def newest_of(path: Path) -> Path:
    """The report beside an export, where that was recorded anew since; else the path itself."""
    for suffix in REPORT_SUFFIXES:
        report = path.with_suffix(suffix)
        if report != path and is_stale(path, report):
            return report
    return path


def is_stale(export: Path, report: Path) -> bool:
    """Whether an export is older than its report, and so of an earlier recording."""
    try:
        return report.stat().st_mtime > export.stat().st_mtime + STALE_S
    except (OSError, ValueError):
        return False


def find_nsys() -> Path | None:
    """The absolute path of the nsys executable to use, or None.

    Looked for in the environment variable NSYS, on PATH, and then in the usual folders of
    Nsight Compute, Nsight Systems and CUDA, where the newest version wins. Raises `ExportError`
    when NSYS is set and is no executable file: somebody asked for that one.
    """
    wanted = os.environ.get("NSYS")
    if wanted:
        if not _is_executable(wanted):
            raise ExportError(
                f"The environment variable NSYS names {Path(wanted).name}, "
                "which is not an executable file.",
                "Set NSYS to the nsys executable, or unset it.",
            )
        return Path(wanted).absolute()
    from shutil import which

    on_path = which("nsys")
    if on_path:
        return Path(on_path).absolute()
    installed = [found for pattern in INSTALL_PATTERNS for found in glob.glob(pattern)]
    return max(
        (Path(found) for found in installed if _is_executable(found)),
        key=lambda path: (_numbers(_version_in(str(path)) or ""), str(path)),
        default=None,
    )


def installed_version() -> str | None:
    """Version of the nsys to use, as its path tells it: None without one, "" for an untold one.

    Raises `ExportError` as `find_nsys` does.
    """
    found = find_nsys()
    return None if found is None else _version_in(str(found.resolve())) or ""


def report_version(path: Path) -> str | None:
    """The nsys version that wrote a report, as in "2025.3.1.90"; None if it is not a report.

    Raises OSError when the file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(100)
    # "NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0." and then binary data.
    found = re.search(rb"20\d\d(?:@\d+){1,3}", head)
    return found[0].decode().replace("@", ".") if found else None


def export_report(report: Path, *, cache_dir: Path | None = None) -> Path:
    """Path of an SQLite export of `report`, made with `nsys export` unless the cache has it.

    The export lies in `cache_dir` (default: nsysoverlap in the user's cache directory), under the
    base name of the report in a folder named for the report's absolute path, size and
    modification time and the nsys version. It appears there complete or not at all, and nothing
    is written beside the report. Raises `ExportError`.
    """
    written_by = _check_report(report)
    nsys = find_nsys()
    if nsys is None:
        older = report.with_suffix(".sqlite")
        why = f", for {older.name} beside it is older," if is_stale(older, report) else ""
        raise ExportError(
            f"{report.name} has to be exported to SQLite{why or ','} and no nsys was found "
            "(NSYS variable, PATH, Nsight Compute and Nsight Systems folders).",
            f"Where nsys is installed, run: {export_command(report)}",
        )
    version = _nsys_version(nsys)
    from tempfile import TemporaryDirectory

    try:
        folder = cache_dir if cache_dir is not None else _user_cache_dir()
        export = folder / _cache_key(report, version) / f"{report.stem}.sqlite"
        if not (_is_own(export.parent) and _is_own(export) and _is_complete(export)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_own(folder)
            # A folder of its own also takes along the journal SQLite may leave beside its file.
            with interrupts_held():
                # From here on Python removes it, whatever happens.
                made = TemporaryDirectory(prefix=".export-", dir=folder, ignore_cleanup_errors=True)
            with made as scratch:
                fresh = Path(scratch, "export.sqlite")
                _run_export(nsys, version, report, written_by, fresh)
                # Exports hold the environment of the profiled process: for the owner only.
                export.parent.mkdir(mode=0o700, exist_ok=True)
                _make_own(export.parent)
                fresh.chmod(0o600)
                fresh.replace(export)
    except OSError as problem:
        raise ExportError(
            f"The export of {report.name} could not be kept in the cache directory: "
            f"{problem.strerror}.",
            "Set XDG_CACHE_HOME to a folder that is writable and has room, or run: "
            f"{export_command(report)}",
        ) from problem
    return export


def export_command(report: Path) -> str:
    """The shell command that exports `report` by hand, quoted where the shell needs it."""
    output = str(report.with_suffix(".sqlite"))
    from shlex import join

    return join(["nsys", "export", "--type", "sqlite", "--output", output, str(report)])


def _check_report(report: Path) -> str:
    """The version that wrote `report`; refuses what nsys could not read anyway."""
    try:
        written_by = report_version(report)
        size = report.stat().st_size
    except FileNotFoundError:
        raise ExportError(f"{report.name} does not exist.", "Check the path.") from None
    except PermissionError:
        raise ExportError(
            f"{report.name} cannot be read: no read permission.",
            "Make it readable for this user, for example with chmod u+r.",
        ) from None
    except OSError as problem:
        raise ExportError(
            f"{report.name} cannot be read: {problem.strerror}.",
            "Give the path of a .nsys-rep report.",
        ) from None
    if size == 0:
        raise ExportError(f"{report.name} is empty.", "Capture or copy the report again.")
    if written_by is None and report.suffix.lower() == ".qdrep":
        # Older reports do not all say who wrote them: nsys will know.
        written_by = "" if _begins_binary(report) else None
    if written_by is None:
        with report.open("rb") as file:
            is_pointer = file.read(24) == b"version https://git-lfs."
        if is_pointer:
            raise ExportError(
                f"{report.name} is a Git LFS pointer, not the report itself.",
                "Fetch the file with: git lfs pull",
            )
        raise ExportError(
            f"{report.name} is not an Nsight Systems report.",
            "Give a .nsys-rep report that nsys profile wrote, or its SQLite export.",
        )
    return written_by


def _begins_binary(report: Path) -> bool:
    with report.open("rb") as file:
        return b"\0" in file.read(512)


def _nsys_version(nsys: Path) -> str:
    done = _run(nsys, "--version")
    version = _version_in(done.stdout)
    if done.returncode != 0 or version is None:
        reason = _reason(done, {str(nsys): "nsys"}) or f"exit status {done.returncode}"
        raise ExportError(
            f"The nsys that was found does not work: {reason}",
            "Set the environment variable NSYS to a working nsys executable.",
        )
    return version


def _run_export(nsys: Path, version: str, report: Path, written_by: str, output: Path) -> None:
    source = os.path.abspath(report)
    done = _run(nsys, "export", "--type", "sqlite", "--output", str(output), source)
    # nsys 2023.4 exits 0 on a full disk and leaves an empty file.
    if done.returncode == 0 and _is_complete(output):
        return
    if _numbers(written_by) > _numbers(version):
        raise ExportError(
            f"{report.name} was written by nsys {written_by}, which is newer than the nsys found "
            f"here ({version}).",
            f"With nsys {written_by} or newer, as on the machine that captured it, run: "
            f"{export_command(report)}",
        )
    if "disk is full" in done.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    names = {source: report.name, str(output): output.name, str(nsys): "nsys"}
    reason = _reason(done, names) or f"exit status {done.returncode}, no complete SQLite file"
    raise ExportError(
        f"nsys {version} could not export {report.name}: {reason}",
        f"Copy or capture the report again; to see all that nsys says, run: "
        f"{export_command(report)}",
    )


def _run(nsys: Path, *arguments: str) -> CompletedProcess[str]:
    from ..core.processes import run_group

    try:
        return run_group([str(nsys), *arguments])
    except OSError as problem:
        raise ExportError(
            f"The nsys that was found cannot be started: {problem.strerror}.",
            "Set the environment variable NSYS to a working nsys executable.",
        ) from None


def _reason(done: CompletedProcess[str], names: dict[str, str]) -> str:
    """The line of stderr that says why, without folders; "" when there is none.

    nsys says it after "Exportation error:" or, when it dumps an exception, last. `names` maps
    full paths to what may be printed: a path may hold blanks, so no pattern finds where it ends.
    """
    lines = [line.strip() for line in done.stderr.splitlines()]
    # The progress bar goes to stderr too.
    lines = [line for line in lines if line and not line.startswith("Processing ")]
    said = [line for line in lines if " error: " in line and "Throw in function" not in line]
    line = (said or lines or [""])[-1]
    for path, name in names.items():
        line = line.replace(path, name)
    return re.sub(r"(?<![\w.])/(?:[^\s'\":()]*/)?", "", line)[:200]


def _user_cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rules say to ignore a relative path here.
    try:
        root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError:
        raise FileNotFoundError(errno.ENOENT, "this user has no home directory") from None
    return root / "nsysoverlap"


def _cache_key(report: Path, version: str) -> str:
    status = report.stat()
    identity = (os.path.abspath(report), status.st_size, status.st_mtime_ns, version)
    from hashlib import sha256

    return sha256(repr(identity).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _is_complete(path: Path) -> bool:
    """Whether `path` is an SQLite file of the length that its own header states."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return False
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        return False
    page = int.from_bytes(head[16:18], "big")
    n_pages = int.from_bytes(head[28:32], "big")
    # 65536 does not fit into the two bytes and is written as 1.
    return size == n_pages * (65536 if page == 1 else page)


def _is_own(path: Path) -> bool:
    """Whether a file or folder is this user's, and no one else can have written to it."""
    try:
        status = path.lstat()
    except OSError:
        return False
    own = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return own and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _make_own(folder: Path) -> None:
    """Close a folder of the cache to others. Raises `ExportError` for one that is another's."""
    if not _is_own(folder):
        with suppress(OSError):
            folder.chmod(0o700)
    if not _is_own(folder):
        raise ExportError(
            f"The cache directory {folder.name} belongs to another user, who could put anything "
            "into it.",
            "Set XDG_CACHE_HOME to a folder of your own.",
        )


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _version_in(text: str) -> str | None:
    """The first "YYYY.N.N" or "YYYY.N.N.N" in `text`, the form of all Nsight versions."""
    found = re.search(r"(?<![\d.])20\d\d(?:\.\d+){1,3}", text)
    return found[0] if found else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".") if number)
