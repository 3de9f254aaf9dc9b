"""Whatever a trace holds, every plot is drawn, legible, and inside its figure.

Warnings are errors in all tests, so a character that the font lacks fails them too.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from matplotlib.axes import Axes

import nsysoverlap as no
from nsysoverlap.draw import style
from nsysoverlap.draw.plot_bandwidth import bandwidth_size, draw_bandwidth
from nsysoverlap.draw.plot_cases import subject
from nsysoverlap.draw.plot_ops import draw_ops, ops_size
from nsysoverlap.draw.plot_steps import draw_steps, steps_size
from nsysoverlap.draw.plot_timeline import draw_timeline, timeline_size
from nsysoverlap.draw.scene import MAX_DEVICES, timeline_scene
from nsysoverlap.draw.style import axes_in_file, house_style, legible
from nsysoverlap.run.analysis import Options, analyze_trace
from tests.tracebuilder import TraceBuilder, draw

from . import kit

US = kit.US
NAMES = {
    "long": "void kernel<" + "std::tuple<float, int>, " * 90 + "int>(float*)",
    "non-ascii": "ядро_内核_核_👾_é",
    "markup": "<script>alert('x')</script>",
    "math": r"foo::$_0::operator()$ \alpha_{1} $",
    "empty": "",
    "control": "a\nb\x1b[31mred\u202e",
}


def named(path: Path, name: str) -> None:
    """Two exposed copies that an operation of this name issued, before a kernel of this name."""
    builder = TraceBuilder()
    for index in range(2):
        at = (100 + 40 * index) * US
        builder.nvtx(f"step {index}", at - 9 * US, at + 20 * US)
        builder.kernel(at, at + 5 * US, "placeholder")
        builder.nvtx(name, at, at + 4 * US)
        builder.copy(at + 4 * US, at + 15 * US, "h2d", stream=20)
        builder.kernel(at + 16 * US, at + 20 * US, "placeholder")
    builder.write(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE StringIds SET value = ? WHERE value = 'placeholder'", [name])


def one_activity(path: Path) -> None:
    draw("dev0 s7 compute: .###.").write(path)


def no_transfers(path: Path) -> None:
    draw("dev0 s7 compute: .###.##.").write(path)


def zero_length(path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(1_000, 1_000)
    builder.copy(2_000, 2_000, "h2d", stream=20)
    builder.copy(2_500, 3_000, "d2h", stream=20)
    builder.write(path)


def all_of_zero_length(path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(1_000, 1_000)
    builder.copy(1_000, 1_000, "h2d", stream=20)
    builder.write(path)


def many_gpus(path: Path) -> None:
    builder = TraceBuilder()
    for device in range(64):
        builder.kernel(0, 50 * US, device=device)
        builder.copy(50 * US, (51 + device) * US, "h2d", device=device, stream=20)
    builder.write(path)


def two_thousand_steps(path: Path) -> None:
    kit.many_steps(path, 2_000)


def only_unified(path: Path) -> None:
    draw("dev0 s7 compute: .###.\ndev0 s0 unified_h2d: ...##").write(path)


CASES: dict[str, Callable[[Path], None]] = {
    **{f"name-{key}": partial(named, name=name) for key, name in NAMES.items()},
    "one-activity": one_activity,
    "no-transfers": no_transfers,
    "zero-length": zero_length,
    "all-of-zero-length": all_of_zero_length,
    "64-gpus": many_gpus,
    "2000-steps": two_thousand_steps,
    "only-unified": only_unified,
}


def plot(kind: str, path: Path) -> Axes:
    trace, options = no.read_trace(path), Options()
    with house_style():
        if kind == "timeline":
            scene = timeline_scene(subject(trace, options))
            (ax,) = axes_in_file(timeline_size(scene))
            draw_timeline(ax, scene)
        elif kind == "bandwidth":
            what = subject(trace, options)
            ax, right = axes_in_file(bandwidth_size(what), 2)
            draw_bandwidth((ax, right), what, None)
        else:
            report = analyze_trace(trace, options)
            (ax,) = axes_in_file((steps_size if kind == "steps" else ops_size)(report))
            (draw_steps if kind == "steps" else draw_ops)(ax, report)
        kit.figure_of(ax)
    return ax


@pytest.mark.parametrize("kind", ["timeline", "steps", "bandwidth", "ops"])
@pytest.mark.parametrize("case", CASES)
def test_every_plot_is_legible(case: str, kind: str, tmp_path: Path) -> None:
    # The file carries the name too, where a file may.
    path = tmp_path / f"{case}-é<b>.sqlite"
    CASES[case](path)
    ax = plot(kind, path)
    assert kit.title(ax)
    assert kit.outside_of_figure(ax) == []
    assert kit.overlapping_labels(ax, "x") == []
    assert kit.overlapping_labels(ax, "y") == []
    assert max(map(len, kit.texts(ax))) < 160


def test_64_gpus_show_those_that_expose_most(tmp_path: Path) -> None:
    many_gpus(tmp_path / "many.sqlite")
    ax = plot("timeline", tmp_path / "many.sqlite")
    shown = kit.texts(ax)
    assert [t for t in shown if t.startswith("H200 dev")] == [
        f"H200 dev {device}, pid 1000" for device in range(64 - MAX_DEVICES, 64)
    ]
    assert any("8 of 64 devices, those that expose most" in text for text in shown)


def test_devices_asked_for_are_all_drawn(tmp_path: Path) -> None:
    many_gpus(tmp_path / "many.sqlite")
    scene = timeline_scene(subject(no.read_trace(tmp_path / "many.sqlite"), Options()), range(64))
    assert len(scene.devices) == 64
    assert timeline_size(scene)[1] > 64


@pytest.fixture
def one_font(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where no font for other scripts is installed."""
    monkeypatch.setattr(style, "MORE_FONTS", ())


@pytest.mark.usefixtures("one_font")
def test_names_in_the_operations_plot(tmp_path: Path) -> None:
    shown = {}
    for key, name in NAMES.items():
        named(tmp_path / f"{key}.sqlite", name)
        ax = plot("ops", tmp_path / f"{key}.sqlite")
        (shown[key],) = [text.get_text() for text in ax.get_yticklabels()]
    assert shown["markup"] == "H2D <script>alert('x')</script>"
    assert shown["non-ascii"] == "H2D ядро_□□_□_□_é"
    assert shown["math"].startswith("H2D foo::$_0:")
    assert shown["control"] == "H2D a bred"
    assert len(shown["long"]) == 32
    assert "..." in shown["long"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "(no name)"),
        ("\x1b[31m", "(no name)"),
        ("a" * 41, f"{'a' * 18}...{'a' * 19}"),
        ("a" * 40, "a" * 40),
        ("内", "□"),
        ("a\tb\nc", "a b c"),
    ],
)
@pytest.mark.usefixtures("one_font")
def test_legible(text: str, expected: str) -> None:
    assert legible(text) == expected


def test_characters_that_bold_titles_lack(tmp_path: Path) -> None:
    """DejaVu Sans has the Arabic mathematical symbol, and not in bold."""
    named(tmp_path / "t.sqlite", "\U0001ee0f")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kit.figure_of(plot("ops", tmp_path / "t.sqlite"))


def test_installed_fonts_help_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """STIX comes with matplotlib and has a frown, which DejaVu Sans lacks."""
    monkeypatch.setattr(style, "MORE_FONTS", ("no such font", "STIXGeneral"))
    assert legible("\u2322内") == "\u2322□"
    named(tmp_path / "t.sqlite", "\u2322")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        ax = plot("ops", tmp_path / "t.sqlite")
        kit.figure_of(ax)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["H2D \u2322"]
    assert [str(one.message) for one in warned] == []


def test_a_transfer_of_no_length_is_no_exposed_time(tmp_path: Path) -> None:
    all_of_zero_length(tmp_path / "zero.sqlite")
    ax = plot("timeline", tmp_path / "zero.sqlite")
    assert kit.title(ax) == "No host transfers"
    assert kit.boxes(ax, "exposed") == []
    low, high = ax.get_xlim()
    assert low < high
