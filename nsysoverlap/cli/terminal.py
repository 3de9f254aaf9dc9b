"""What is written where: results to stdout or a file, messages and progress to stderr."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from ..core.errors import NsysOverlapError, UsageError
from ..core.formatting import clean_text
from ..core.output import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

PIPED_WIDTH = 80
MAX_WIDTH = 120
HELP_WIDTH = 100
_PATIENCE_S = 1.0
_FRAME_S = 0.1
_FRAMES = "|/-\\"


def stdout_width(output: Path | None) -> int:
    """Columns for text: those of the terminal up to 120, and 80 for a pipe or a file."""
    if not _on_terminal(output):
        return PIPED_WIDTH
    return min(_columns(), MAX_WIDTH)


def help_width() -> int:
    """Columns for help: two less than those of the terminal, 50 to 98, as click has it."""
    return max(min(_columns(), HELP_WIDTH) - 2, 50)


def _columns() -> int:
    """Columns of the terminal, as `shutil` finds them, which takes longer to load than to run."""
    with suppress(KeyError, ValueError):
        if (columns := int(os.environ["COLUMNS"])) > 0:
            return columns
    with suppress(AttributeError, ValueError, OSError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or PIPED_WIDTH  # type: ignore[union-attr]
    return PIPED_WIDTH


def stdout_color(output: Path | None) -> bool:
    """Whether to use colours: on a terminal that has them, unless NO_COLOR is set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return _on_terminal(output) and not plain


def _on_terminal(output: Path | None) -> bool:
    return to_stdout(output) and sys.stdout is not None and sys.stdout.isatty()


def to_stdout(output: Path | None) -> bool:
    """Whether a result goes to stdout: no file was given, or `-`."""
    return output is None or str(output) == "-"


def emit(text: str, output: Path | None) -> None:
    """Write a finished result to stdout, or to a file and say so."""
    if output is None or to_stdout(output):
        _print(text)
    else:
        emit_file(text, output)


def emit_file(content: str | bytes | Iterable[bytes], output: Path) -> None:
    """Write a finished result to a file and say so."""
    write_atomically(output, content)
    say(f"Wrote {output}")


def say(message: str) -> None:
    """One line to stderr, whatever names are in it, if anyone can still read it: a result does not
    depend on that.
    """
    with suppress(OSError):
        click.echo(clean_text(message), err=True)


class Plain(click.Command):
    """A command whose help, too, is a result: no room for it is an error, a closed pipe is not.

    An option that holds one value may be given once: click would take the last one in silence.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's. Raises `UsageError` for an option given twice."""
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for option, n in Counter(order).items():
                if n > 1 and isinstance(option, click.Option) and _holds_one_value(option):
                    raise UsageError(
                        f"{max(option.opts, key=len)} is given {n} times.",
                        "It holds one value: give it once.",
                    )
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the arguments; `--help` and `--version` print and end here."""
        with _writing_stdout():
            return super().make_context(*args, **extra)


def _holds_one_value(option: click.Option) -> bool:
    return not (option.multiple or option.count or option.is_flag)


def _print(text: str) -> None:
    if sys.stdout is None:
        raise NsysOverlapError("stdout is closed.", "Use --output FILE.")
    encoding = sys.stdout.encoding or "utf-8"
    # A terminal without UTF-8 shows a question mark rather than nothing at all.
    text = text.encode(encoding, "replace").decode(encoding)
    with suppress(click.exceptions.Exit), _writing_stdout():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextmanager
def _writing_stdout() -> Iterator[None]:
    """Ends with `Exit` where the reader has left, with an error where nothing can be written."""
    try:
        yield
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; that changes no result.
        _silence_stdout()
        raise click.exceptions.Exit(0) from None
    except OSError as error:
        _silence_stdout()
        raise NsysOverlapError(
            f"stdout: cannot be written ({error.strerror}).", "Use --output FILE."
        ) from error


def drop_stdout() -> None:
    """Write nothing more to the stdout of the process, not even what is in its buffer."""
    if sys.stdout is not None and sys.stdout is sys.__stdout__:
        with suppress(OSError):
            _silence_stdout()


def _silence_stdout() -> None:
    """Let the flush at exit go nowhere, so that Python does not complain about it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def progress(message: str) -> Iterator[None]:
    """A turning sign on stderr while the block runs, after a second: on a terminal, not in CI."""
    in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    if in_ci or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_turn, args=(clean_text(message), done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _turn(message: str, done: threading.Event) -> None:
    if done.wait(_PATIENCE_S):
        return
    turns = 0
    while not done.wait(_FRAME_S):
        sys.stderr.write(f"\r{_FRAMES[turns % len(_FRAMES)]} {message}")
        sys.stderr.flush()
        turns += 1
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()
