"""Exit codes, and the one place where errors become them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import IO, Any

import click

from ..core.errors import InconclusiveError, NsysOverlapError
from ..core.formatting import clean_text
from ..core.interrupts import interrupt_behind

DEBUG_VARIABLE = "NSYSOVERLAP_DEBUG"


class ExitCode(IntEnum):
    """What a shell or a CI job sees."""

    DONE = 0
    FAILED = 1
    UNUSABLE = 2
    INCONCLUSIVE = 3
    SIGNALS = 128
    """Added to the number of the signal that ended a command."""
    INTERRUPTED = 130


class Failure(click.ClickException):
    """An error as one `Error:` line on stderr; exit code 2."""

    exit_code = ExitCode.UNUSABLE


class Inconclusive(Failure):
    """What a trace does not tell; exit code 3."""

    exit_code = ExitCode.INCONCLUSIVE

    def show(self, file: IO[Any] | None = None) -> None:
        """Print what and why."""
        click.echo(f"Inconclusive: {self.message}", file=file, err=True)


class InternalFailure(Failure):
    """A mistake of this package; exit code 2 as well, so that no gate passes on it."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print what happened and where to take it."""
        click.echo(f"Internal error: {self.message}", file=file, err=True)
        click.echo(
            "This is a bug in nsysoverlap: please report it with the command, the nsys version "
            f"and the output under {DEBUG_VARIABLE}=1.",
            file=file,
            err=True,
        )


_NO_MEMORY = "Not enough memory. Use a machine with more memory, or a shorter capture."
_MEMORY = re.compile(r"allocate memory|failed to map", re.IGNORECASE)
"""What the system says of a library that it has no memory for."""


@contextmanager
def interrupts_as_exits() -> Iterator[None]:
    """Turn an interrupt, whatever became of it on its way, into its exit code: 128 + signal."""
    try:
        yield
    except BaseException as error:
        number = interrupt_behind(error)
        if number is None:
            raise
        raise click.exceptions.Exit(ExitCode.SIGNALS + number) from None


@contextmanager
def errors_as_exits() -> Iterator[None]:
    """Turn whatever goes wrong inside into click's exceptions, which carry exit codes."""
    try:
        with interrupts_as_exits():
            yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except InconclusiveError as error:
        raise Inconclusive(one_line(error)) from error
    except NsysOverlapError as error:
        raise Failure(one_line(error)) from error
    except OSError as error:
        raise Failure(_os_error(error)) from error
    except MemoryError as error:
        raise Failure(_NO_MEMORY) from error
    except ImportError as error:
        if not _MEMORY.search(str(error)):
            raise InternalFailure(clean_text(f"ImportError: {error}")) from error
        raise Failure(_NO_MEMORY) from error
    except Exception as error:
        if isinstance(error.__cause__, MemoryError):
            # Python 3.13 says SystemError where memory runs out while it compiles a module.
            raise Failure(_NO_MEMORY) from error
        if os.environ.get(DEBUG_VARIABLE):
            from traceback import print_exc

            print_exc()
        raise InternalFailure(clean_text(f"{type(error).__name__}: {error}")) from error


def _os_error(error: OSError) -> str:
    """A file that vanished, a name too long, a disk that fails: nobody's bug."""
    name = "" if error.filename is None else f"{os.path.basename(os.fsdecode(error.filename))}: "
    return clean_text(f"{name}{error.strerror or error}. Check the path and its permissions.")


def one_line(error: NsysOverlapError) -> str:
    """Message and hint, free of line breaks and terminal codes."""
    return clean_text(str(error))
