"""Which formats of a result are wanted, and where each goes: one analysis, several outputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..core.errors import UsageError
from .formats import formats_of, render, usual_format
from .terminal import PIPED_WIDTH, emit_file, to_stdout

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ..show.sections import Result
    from .given import Command, Given


@dataclass(frozen=True)
class Wanted:
    """`main` goes to stdout or `--output`, each of `files` (a format and a path) to its file."""

    main: str
    files: tuple[tuple[str, Path], ...] = ()

    def __contains__(self, fmt: str) -> bool:
        return fmt == self.main or any(fmt == name for name, _ in self.files)

    def check(self, given: Given, inputs: Sequence[Path]) -> None:
        """Refuse early what cannot be written, two outputs to one file, and an input as one."""
        given.check_target(inputs)
        taken = {} if given.output is None else {os.path.realpath(given.output): "--output"}
        for fmt, path in self.files:
            given.check_target(inputs, path)
            place, option = os.path.realpath(path), f"--format {fmt}"
            if place in taken:
                raise UsageError(
                    f"{taken[place]} and {option} name one file.", "Give each its own."
                )
            taken[place] = option

    def write(self, result: Result, given: Given, *, main: bool = True, **layout: Any) -> None:
        """Render all, then write the files, then the main one unless it is not wanted now."""
        off_screen = {"width": PIPED_WIDTH, "color": False}
        texts = [render(result, fmt, **off_screen, **layout) for fmt, _ in self.files]
        shown = render(result, self.main, **given.screen, **layout) if main else None
        for text, (_, path) in zip(texts, self.files, strict=True):
            emit_file(text, path)
        if shown is not None:
            given.show(shown)


class _FormatType(click.ParamType[Any]):
    """`NAME`, or `NAME=FILE`."""

    name = "format"

    def __init__(self, formats: Sequence[str]) -> None:
        self._formats = tuple(formats)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The format and its file, None where it has none."""
        if not isinstance(value, str):
            return value
        name, equals, file = value.partition("=")
        if name not in self._formats:
            known = ", ".join(map(repr, self._formats))
            self.fail(f"{name!r} is not one of {known}.", param, ctx)
        if equals and (not file or to_stdout(Path(file))):
            self.fail(f"{value!r} names no file; is a variable not set?", param, ctx)
        return name, Path(file) if equals else None

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """For `--help`."""
        return "FORMAT[=FILE]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in self._formats if name.startswith(incomplete)]


def formats_option(kind: str, text: str = "") -> Callable[[Command], Command]:
    """`--format` of a command whose result may be written in several formats at once."""
    formats = formats_of(kind)

    def collect(
        ctx: click.Context, param: click.Parameter, found: Sequence[tuple[str, Path | None]]
    ) -> Wanted:
        plain = [name for name, path in found if path is None]
        if len(plain) > 1:
            raise UsageError(
                f"--format is given {len(plain)} times without a file.",
                "One format goes to stdout or --output; write the others as FORMAT=FILE.",
            )
        files = tuple((name, path) for name, path in found if path is not None)
        # The output is eager, so that it is known here.
        usual = usual_format(formats, ctx.params.get("output"))
        return Wanted(plain[0] if plain else usual, files)

    known = f"{', '.join(formats[:-1])} or {formats[-1]}"
    return click.option(
        "--format",
        "wanted",
        type=_FormatType(formats),
        multiple=True,
        callback=collect,
        help=f"Output format: {known}{text}. FORMAT=FILE writes one more, to FILE; may be given "
        f"several times.  [default: by the extension of --output, else {formats[0]}]",
    )
