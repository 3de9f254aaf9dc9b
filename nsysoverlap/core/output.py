"""Write a result to a file: complete or not at all, and never over what it was made from."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from .errors import NsysOverlapError, UsageError
from .interrupts import interrupts_held

if TYPE_CHECKING:
    from pathlib import Path

_HINTS = {
    errno.ENOENT: "Create the folder first.",
    errno.ENOTDIR: "Create the folder first.",
    errno.EISDIR: "Give the name of a file.",
    errno.ENOSPC: "Free some space, or write to another disk.",
    errno.EDQUOT: "Free some space, or write to another disk.",
}


def check_target(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Refuse early, before any work, what `write_atomically` could not or must not write.

    Raises `UsageError` where `path` is a folder, lies in a folder that does not exist, or is one
    of `inputs`.
    """
    if os.path.isdir(path):
        raise _not_writable(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if not os.path.isdir(path.parent):
        raise _not_writable(path, FileNotFoundError(errno.ENOENT, "no such folder"))
    if any(_same_file(path, source) for source in inputs):
        raise UsageError(
            f"{path.name}: is an input and would be overwritten.", "Give another output file."
        )


def write_atomically(path: Path, content: str | bytes | Iterable[bytes]) -> None:
    """Replace `path` by `content` (text as UTF-8, or pieces as they come) in one step.

    On any failure, an interrupt included, what was there before stays and nothing else is left
    behind. Devices and pipes are written to directly. Raises `UsageError` for a path that makes
    no sense and `NsysOverlapError` where the system refuses.
    """
    check_target(path)
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    pieces = [data] if isinstance(data, bytes) else data
    try:
        # /dev/stdout may link to a pipe, which has no path of its own.
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                file.writelines(pieces)
        else:
            # A link stays a link: what it points to is replaced. `Path` is not imported, for
            # `--help` loads this module and needs none.
            _replace(type(path)(os.path.realpath(path)), pieces)
    except OSError as error:
        raise _not_writable(path, error) from error


def _replace(target: Path, pieces: Iterable[bytes]) -> None:
    effective = os.access in os.supports_effective_ids
    if target.exists() and not os.access(target, os.W_OK, effective_ids=effective):
        # Renaming over a write-protected file would work, and is not what its owner wants.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~current_umask()
    name = None
    # Imported here, for most results go to stdout.
    import tempfile

    try:
        with interrupts_held():
            descriptor, name = tempfile.mkstemp(prefix=".nsysoverlap-", dir=target.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(pieces)
            os.fchmod(file.fileno(), mode)
        os.replace(name, target)
    except BaseException:
        if name is not None:
            with suppress(FileNotFoundError):
                # Interrupted when it had its final name already.
                os.unlink(name)
        raise


def current_umask() -> int:
    """The process's umask, which can only be read by setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current


def _same_file(one: Path, two: Path) -> bool:
    try:
        return one.samefile(two)
    except OSError:
        return False


def _not_writable(path: Path, error: OSError) -> NsysOverlapError:
    kind = UsageError if error.errno in (errno.EISDIR, errno.ENOENT) else NsysOverlapError
    return kind(
        f"{path.name or path}: cannot be written ({error.strerror}).",
        _HINTS.get(error.errno or 0, "Check the path and its permissions."),
    )
