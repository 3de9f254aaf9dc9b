"""Reports survive JSON, and nothing in a JSON file can cause a traceback."""

from __future__ import annotations

import copy
import csv
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path as FilePath
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoverlap.cli import main
from nsysoverlap.core.errors import ConfigError
from nsysoverlap.core.json_codec import read, schema
from nsysoverlap.core.json_model import Count, Document, Later
from nsysoverlap.core.json_model import plain as plain_data
from nsysoverlap.judge.baseline import read_baseline, write_baseline
from nsysoverlap.judge.history_store import read_runs
from nsysoverlap.result.model import (
    Attribution,
    Basis,
    Bounds,
    Collective,
    DeviceReport,
    Effective,
    Evidence,
    Finding,
    Gpu,
    HealthEntry,
    KernelReport,
    LinkReport,
    OpaqueBounds,
    OperationReport,
    OutsideSteps,
    Overlap,
    OverlapReport,
    Program,
    Rate,
    Relief,
    Slowdown,
    StepReport,
    StreamReport,
    TimeBudget,
    TraceReport,
)
from nsysoverlap.run.analysis import analyze
from nsysoverlap.show.documents import DOCUMENTS

from .sample_reports import SAMPLES, plain, small, two_devices
from .traces import h200, h200_names

Path = tuple[str | int, ...]

counts = st.integers(0, 10**15)
ids = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=8)
rates = st.none() | st.floats(1e-6, 1e6)
shares = st.tuples(st.floats(0, 1), st.floats(0, 1))
ratios = st.none() | st.floats(-1e6, 1e6)
spans = st.tuples(ids, ids).map(sorted)
budgets = st.builds(TimeBudget, *[counts] * 6)
reliefs = st.builds(Relief, counts, counts, counts)


@st.composite
def overlaps(draw: st.DrawFn) -> Overlap:
    compute, comm, exposed = draw(counts), draw(counts), draw(counts)
    n_bytes = draw(counts)
    waited = st.integers(0, exposed)
    waits = draw(st.none() | st.tuples(waited, waited, waited).map(sorted))
    return Overlap(
        n=draw(counts),
        n_by_kernel=draw(counts),
        bytes=n_bytes,
        bytes_estimated=draw(counts),
        busy_ns=draw(counts),
        wall_ns=compute + comm + exposed,
        hidden_by_compute_ns=compute,
        hidden_by_comm_ns=comm,
        exposed_ns=exposed,
        exposed_under_other_ns=draw(st.integers(0, exposed)),
        blocking_ns=None if waits is None else waits[0],
        host_blocking_ns=None if waits is None else waits[1] - waits[0],
        unawaited_ns=None if waits is None else waits[2] - waits[1],
        # JSON carries the duration of the copies as a rate, which needs bytes.
        copy_ns=draw(counts) if n_bytes else 0,
    )


streams = st.builds(
    StreamReport,
    pid=ids,
    context_id=ids,
    stream_id=ids,
    role=st.sampled_from(["compute", "comm", "h2d", "d2h", "other", "opaque", "mixed"]),
    busy_ns=st.dictionaries(st.sampled_from(["compute", "comm", "h2d", "other"]), counts),
    h2d=overlaps(),
    d2h=overlaps(),
)
steps = st.builds(
    lambda span, **known: StepReport(start_ns=span[0], end_ns=span[1], **known),
    spans,
    index=counts,
    label=texts,
    pid=ids,
    h2d=overlaps(),
    d2h=overlaps(),
    both=overlaps(),
    time_budget=budgets,
    relief=reliefs,
)
slowdowns = st.builds(
    lambda compared, rest, **known: Slowdown(
        beside_ns=compared + rest, compared_ns=compared, **known
    ),
    counts,
    counts,
    n_beside=counts,
    n_alone=counts,
    cost_ns=ids,
    ratio=ratios,
    p10_ratio=ratios,
    p90_ratio=ratios,
)
effects = st.builds(
    Effective, *[st.builds(Rate, counts, rates, rates, rates)] * 4, slowdowns, slowdowns
)
bounds = st.builds(Bounds, st.none() | st.floats(0, 1), st.none() | counts)
operations = st.builds(
    OperationReport,
    op=texts,
    label=texts,
    direction=st.sampled_from(["h2d", "d2h", "unified_h2d", "unified_d2h"]),
    overlap=overlaps(),
    exposed_per_step_ns=st.none() | counts,
    followed_by=st.none() | texts,
)
kernels = st.builds(KernelReport, texts, texts, counts, counts, counts)
findings = st.builds(
    Finding,
    code=texts,
    severity=st.sampled_from(["warning", "note"]),
    title=texts,
    detail=texts,
    remedy=texts,
    cost_ns=counts,
    evidence=st.lists(
        st.builds(
            lambda span, *rest: Evidence(*span, *rest),
            spans,
            texts,
            *[st.none() | texts] * 3,
        ),
        max_size=2,
    ).map(tuple),
)


devices = st.builds(
    DeviceReport,
    trace=texts,
    pid=st.none() | ids,
    device_id=st.none() | ids,
    gpu=st.builds(Gpu, st.none() | ids, st.none() | texts, st.none() | texts),
    window_ns=st.tuples(ids, ids).map(lambda pair: (min(pair), max(pair))),
    h2d=overlaps(),
    d2h=overlaps(),
    both=overlaps(),
    unified_h2d=overlaps(),
    unified_d2h=overlaps(),
    time_budget=budgets,
    streams=st.lists(streams, max_size=2).map(tuple),
    collectives=st.lists(st.builds(Collective, texts, counts, counts, counts), max_size=2).map(
        tuple
    ),
    link=st.builds(LinkReport, rates, rates, texts, rates, rates),
    opaque_bounds=st.none()
    | st.builds(OpaqueBounds, st.none() | shares, st.none() | shares, st.none() | shares),
    steps=st.lists(steps, max_size=2).map(tuple),
    outside_steps=st.none() | st.builds(OutsideSteps, overlaps(), overlaps()),
    relief=st.none() | reliefs,
    effective=st.none() | effects,
    bounds=st.none() | bounds,
)
traces = st.builds(
    TraceReport,
    path=texts,
    rank=st.none() | ids,
    nsys_version=st.none() | texts,
    schema_version=st.none() | texts,
    capture=st.dictionaries(texts, texts, max_size=2),
    framework=st.none() | st.builds(Program, texts, texts),
    components=st.lists(st.builds(Program, texts, texts), max_size=2).map(tuple),
)
entries = st.builds(
    HealthEntry,
    code=texts,
    severity=st.sampled_from(["error", "warning", "note"]),
    message=texts,
    hint=texts,
    trace=texts,
    count=counts,
)
reports = st.builds(
    OverlapReport,
    traces=st.lists(traces, max_size=2).map(tuple),
    health=st.lists(entries, max_size=2).map(tuple),
    devices=st.lists(devices, max_size=2).map(tuple),
    basis=st.builds(
        Basis,
        kind=st.sampled_from(["trace", "window", "steps"]),
        window_ns=st.none() | st.tuples(st.none() | ids, st.none() | ids),
        config=st.none() | texts,
        transfer_kernels=st.sampled_from(["auto", "off"]),
        steps=st.none() | texts,
        n_steps=counts,
        skipped=counts,
    ),
    operations=st.lists(operations, max_size=2).map(tuple),
    kernels=st.lists(kernels, max_size=2).map(tuple),
    findings=st.lists(findings, max_size=2).map(tuple),
    attribution=st.none() | st.builds(Attribution, *[counts] * 4),
    generator=texts,
)


@cache
def validator(name: str = "report") -> Any:
    from jsonschema import Draft202012Validator

    schema = json.loads(files("nsysoverlap.result").joinpath(f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@settings(deadline=None)
@given(reports)
def test_any_report_survives_json_and_fits_the_schema(report: OverlapReport) -> None:
    text = json.dumps(report.to_dict(), allow_nan=False)
    values = json.loads(text)
    assert OverlapReport.from_dict(values) == report
    validator().validate(values)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_fit_the_schema_and_come_back(name: str) -> None:
    report = SAMPLES[name]()
    values = json.loads(json.dumps(report.to_dict()))
    validator().validate(values)
    assert OverlapReport.from_dict(values) == report


@pytest.mark.parametrize("name", h200_names())
def test_reports_of_real_traces_fit_the_schema_and_come_back(name: str) -> None:
    report = analyze(h200(name))
    values = json.loads(json.dumps(report.to_dict()))
    validator().validate(values)
    assert plain_data(OverlapReport.from_dict(values)) == values


def test_the_shape_is_the_documented_one() -> None:
    values = two_devices().to_dict()
    assert list(values) == [
        *("format", "format_version", "generator", "basis", "traces", "health", "devices"),
        *("totals", "operations", "kernels", "attribution", "findings"),
    ]
    assert list(values["devices"][0]) == [
        *("trace", "pid", "device_id", "gpu", "window_ns"),
        *("h2d", "d2h", "both", "unified_h2d", "unified_d2h"),
        *("time_budget", "link", "opaque_bounds", "outside_steps", "relief", "memory"),
        *("effective", "bounds", "collectives", "streams", "steps"),
    ]
    assert list(values["devices"][0]["h2d"]) == [
        *("n", "n_by_kernel", "bytes", "bytes_estimated", "busy_ns", "wall_ns"),
        *("hidden_by_compute_ns", "hidden_by_comm_ns", "exposed_ns", "exposed_under_other_ns"),
        *("blocking_ns", "host_blocking_ns", "unawaited_ns"),
        *("hidden_share", "covered_share", "unresolved_ns", "gb_per_s"),
    ]
    details = small().to_dict()
    assert list(details["operations"][0]) == [
        *("op", "label", "direction", *values["devices"][0]["h2d"]),
        *("exposed_per_step_ns", "followed_by"),
    ]
    assert list(details["findings"][0]) == [
        *("code", "severity", "title", "detail", "remedy", "cost_ns", "evidence", "gain"),
    ]
    device = details["devices"][0]
    assert list(device["steps"][0]) == [
        *("index", "label", "pid", "start_ns", "end_ns", "h2d", "d2h", "both"),
        *("time_budget", "relief"),
    ]
    assert list(device["outside_steps"]) == ["h2d", "d2h"]
    assert device["relief"] == {
        "relief_bytes": 25,
        "offloaded_bytes": 100,
        "excluded_bytes": 7,
        "relief_share": 0.25,
    }
    assert device["memory"] == {
        "allocated_peak_bytes": 31 << 30,
        "planned_bytes": 30 << 30,
        "host_bytes": 3 << 30,
        "control": "save",
        "control_peak_bytes": 33 << 30,
        "peak_bytes": 31 << 30,
    }
    assert device["effective"]["compute"]["compared_share"] == 0.5
    assert values["totals"]["both"]["wall_ns"] == 477_600_000 + 1_700_500_000


def places(values: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of everything inside a JSON value."""
    items = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def at(values: Any, path: Path) -> Any:
    for key in path:
        values = values[key]
    return values


FIRST = (("devices", 0, "h2d"), ("totals", "h2d"))
SPLITS = ("h2d", "d2h", "both", "unified_h2d", "unified_d2h")


def is_repeated(path: Path) -> bool:
    """Inside one of the many OVERLAP objects, of which the first two stand for all."""
    return len(path) > 1 and path[-2] in SPLITS and path[:-1] not in FIRST


PLACES = [path for path in places(small().to_dict()) if not is_repeated(path)]
# Keys of free mappings may come and go.
KEYS = [
    p
    for p in PLACES
    if isinstance(p[-1], str)
    and p[-2:-1] not in {("capture",), ("busy_ns",)}
    # Reports of earlier versions lack these.
    and p[-1] not in ("framework", "components", "steps_asked", "rules", "links", "accepted")
]
JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    7,
    1e400,
    float("nan"),
    -0.5,
    10**400,
    "x",
    [],
    {},
    [None, []],
    {"n": 1},
    "\ud800",
)


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_junk_anywhere_is_an_error_or_another_report(path: Path) -> None:
    for junk in JUNK:
        values = copy.deepcopy(small().to_dict())
        at(values, path[:-1])[path[-1]] = junk
        try:
            report = OverlapReport.from_dict(values)
        except ConfigError:
            continue
        assert OverlapReport.from_dict(report.to_dict()) == report


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in PLACES
        if isinstance(p[-1], str) and "capture" not in p and "busy_ns" not in p[:-1]
    ],
    ids=lambda path: ".".join(map(str, path)),
)
def test_the_schema_wants_every_key_and_no_other(path: Path) -> None:
    values = copy.deepcopy(small().to_dict())
    inside = at(values, path[:-1])
    value = inside.pop(path[-1])
    assert not validator().is_valid(values)
    inside |= {path[-1]: value, "surprise": 1}
    assert not validator().is_valid(values)


ADDED = (
    *("host_blocking_ns", "unawaited_ns", "unresolved_ns", "gain", "replay", "memory"),
    "collectives",
)
"""Keys that reports of the first version lack."""


@pytest.mark.parametrize(
    "path",
    [path for path in KEYS if path[-1] not in ADDED],
    ids=lambda path: ".".join(map(str, path)),
)
def test_a_missing_key_is_named(path: Path) -> None:
    values = copy.deepcopy(small().to_dict())
    del at(values, path[:-1])[path[-1]]
    wanted = "not an nsysoverlap report" if path == ("format",) else f"lacks '{path[-1]}'"
    with pytest.raises(ConfigError, match=wanted):
        OverlapReport.from_dict(values)


def test_an_older_report_does_not_know_of_the_host() -> None:
    values = copy.deepcopy(small().to_dict())
    part = values["devices"][0]["h2d"]
    assert part["exposed_ns"] > 10
    for name in ADDED:
        part.pop(name, None)
    part["blocking_ns"] = 10
    found = OverlapReport.from_dict(values).devices[0].h2d
    assert (found.blocking_ns, found.host_blocking_ns) == (10, None)
    assert found.unresolved_ns == found.exposed_ns - 10


@pytest.mark.parametrize("values", [None, [], "x", 3, {}, {"format": "other"}])
def test_other_files_are_refused(values: Any) -> None:
    with pytest.raises(ConfigError, match="not an nsysoverlap report") as caught:
        OverlapReport.from_dict(values)
    assert "--format json" in caught.value.hint


def test_a_newer_version_is_refused() -> None:
    values = {**plain().to_dict(), "format_version": 2}
    with pytest.raises(ConfigError, match="version 2; this nsysoverlap reads up to 1") as caught:
        OverlapReport.from_dict(values)
    assert "Update nsysoverlap" in caught.value.hint


def test_times_that_do_not_add_up_are_refused() -> None:
    values = plain().to_dict()
    values["devices"][0]["h2d"]["wall_ns"] += 1
    with pytest.raises(ConfigError, match=r"report\.devices\[0\]\.h2d do not add up"):
        OverlapReport.from_dict(values)


@pytest.mark.parametrize("name", ["n", "bytes", "busy_ns"])
def test_totals_that_are_no_sums_are_refused(name: str) -> None:
    values = plain().to_dict()
    values["totals"]["d2h"][name] += 1
    with pytest.raises(ConfigError, match=r"totals\.d2h is not the sum"):
        OverlapReport.from_dict(values)


def test_a_total_budget_that_is_no_sum_is_refused() -> None:
    values = plain().to_dict()
    values["totals"]["time_budget"]["idle_ns"] += 1
    with pytest.raises(ConfigError, match=r"totals\.time_budget is not the sum"):
        OverlapReport.from_dict(values)


def test_messages_are_one_line_however_odd_the_value() -> None:
    values = {**plain().to_dict(), "generator": ["line\nbreak" * 1000]}
    with pytest.raises(ConfigError, match=r"report\.generator should be a string") as caught:
        OverlapReport.from_dict(values)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 150


def test_unknown_keys_are_for_later_versions() -> None:
    values = {**plain().to_dict(), "later": 1}
    assert OverlapReport.from_dict(values) == plain()


def change(path: str, value: Any) -> dict[str, Any]:
    """The report with every kind of part, and one value in it another."""
    values = copy.deepcopy(small().to_dict())
    keys: Path = tuple(int(key) if key.isdigit() else key for key in path.split("."))
    at(values, keys[:-1])[keys[-1]] = value
    return values


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("devices", {}, "report.devices should be a list, not {}"),
        ("devices.0.h2d.n", -1, "report.devices[0].h2d.n should be at least 0, not -1"),
        ("devices.0.h2d.n", 1.5, "report.devices[0].h2d.n should be an integer, not 1.5"),
        ("devices.0.h2d.n", True, "report.devices[0].h2d.n should be an integer, not True"),
        (
            "devices.0.h2d.n",
            2**63,
            "h2d.n should be an integer of 64 bits, not 9223372036854775808",
        ),
        ("devices.0.h2d.gb_per_s", 0, "h2d.gb_per_s should be above 0, not 0"),
        ("devices.0.h2d.gb_per_s", 1e400, "h2d.gb_per_s should be a finite number, not inf"),
        ("devices.0.bounds.best_hidden_share", 1.5, "should be at most 1, not 1.5"),
        ("devices.0.bounds", "x", "report.devices[0].bounds should be an object or null, not 'x'"),
        ("devices.0.window_ns", [5, 1], "window_ns should be a start and a later end, not [5, 1]"),
        ("devices.0.window_ns", [5], "window_ns should be a list of 2, not [5]"),
        ("devices.0.steps.0.end_ns", -5, "end_ns should be no earlier than the start, not -5"),
        ("devices.0.effective.comm.compared_ns", 201, "comm.compared_ns is more than beside_ns"),
        ("findings.0.severity", "bad", "severity should be warning or note, not 'bad'"),
        ("traces.0.capture", {"a": 1}, "capture[...] should be a string, not {'a': 1}"),
        ("format_version", "x", "report.format_version should be an integer, not 'x'"),
        ("format_version", 0, "report.format_version should be at least 1, not 0"),
    ],
)
def test_a_wrong_value_is_shown_with_its_place(path: str, value: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        OverlapReport.from_dict(change(path, value))
    assert caught.value.message.endswith(f"{said}.")


# Files that were written before the codec was.

WRITTEN = FilePath(__file__).parent / "fixtures" / "written_v1"


def holds(new: Any, old: Any) -> bool:
    """Whether everything in `old` stands in `new`, which may have more keys."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(k in new and holds(new[k], old[k]) for k in old)
    if isinstance(old, list):
        return isinstance(new, list) and len(new) == len(old) and all(map(holds, new, old))
    return bool(new == old)


@pytest.mark.parametrize("name", ["every_key", "jax_fsdp2_lhs", "jax_scan_pipelined_graph_level"])
def test_a_report_of_the_first_version_is_read_and_loses_nothing(name: str) -> None:
    old = json.loads((WRITTEN / f"{name}.json").read_text())
    new = OverlapReport.from_dict(old).to_dict()
    assert holds(new, old)
    assert not holds(old, change("devices.0.h2d.n", 10**9))


def test_a_baseline_of_the_first_version_is_read() -> None:
    old = json.loads((WRITTEN / "baseline.json").read_text())
    report = read_baseline(WRITTEN / "baseline.json").report
    assert holds(report.to_dict(), old["report"])


def test_a_history_of_the_first_version_is_read() -> None:
    runs = read_runs(WRITTEN / "history.sqlite", {"branch": "main"})
    assert [run.traces for run in runs] == [
        ("jax_scan_lhs.sqlite",),
        ("jax_scan_pipelined.sqlite",),
    ]
    with closing(sqlite3.connect(WRITTEN / "history.sqlite")) as connection:
        rows = connection.execute("SELECT d2h_hidden_share, step_ns FROM runs").fetchall()
    assert rows == [(run.values["d2h_hidden_share"], run.values["step_ns"]) for run in runs]
    assert all(share and step_ns for share, step_ns in rows)


# The other outputs.

LHS, PIPELINED = str(h200("jax_scan_lhs")), str(h200("jax_scan_pipelined"))
RANKS = LHS.replace("jax_scan_lhs", "jax_unroll_*lhs")
OUTPUTS = {
    "report": ["report", LHS],
    "verdict": ["gate", LHS, "--min-hidden", "10", "--require", "relief >= 1%", "--max-drop", "1"],
    "comparison": ["compare", LHS, PIPELINED],
    "history": ["history", "--db", str(WRITTEN / "history.sqlite")],
    "info": ["info", LHS],
    "infos": ["info", RANKS],
    "transfers": ["transfers", LHS],
    "slim": ["slim", LHS, "--check"],
    "rules": ["rules", LHS, "--explain", "ncclDevKernel_AllReduce"],
    "whatif": ["whatif", LHS, "--link", "2x", "--sweep", "link=1:2"],
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_commands_write_fits_its_schema(name: str) -> None:
    arguments = [*OUTPUTS[name], "--format", "json"]
    if name == "verdict":
        arguments += ["--baseline", str(WRITTEN / "baseline.json"), "--confidence", "95"]
    written = CliRunner().invoke(main, arguments)
    values = json.loads(written.stdout)
    assert values["format"] == f"nsysoverlap.{name}"
    validator(name).validate(values)
    for key in values:
        assert not validator(name).is_valid({k: v for k, v in values.items() if k != key})
    assert not validator(name).is_valid({**values, "surprise": 1})


@pytest.mark.parametrize("name", ["ddp_two_procs", "micro_managed", "jax_scan_pipelined"])
def test_transfers_of_every_kind_fit_the_schema(name: str) -> None:
    command = ["transfers", str(h200(name))]
    rows = list(csv.DictReader(CliRunner().invoke(main, command).stdout.splitlines()))
    values = json.loads(CliRunner().invoke(main, [*command, "--format", "json"]).stdout)
    validator("transfers").validate(values)
    assert rows
    for one, row in zip(values["transfers"], rows, strict=True):
        assert (str(one["start_ns"]), one["src_kind"] or "") == (row["start_ns"], row["src_kind"])


def test_a_slim_copy_fits_its_schema(tmp_path: FilePath) -> None:
    out = tmp_path / "out.sqlite"
    written = CliRunner().invoke(main, ["slim", LHS, str(out), "--format", "json"])
    values = json.loads(written.stdout)
    validator("slim").validate(values)
    assert (values["path"], values["n_bytes"]) == ("out.sqlite", out.stat().st_size)
    with closing(sqlite3.connect(out)) as connection:
        for change in values["tables"]:
            if change["kept"]:
                found = connection.execute(f"SELECT count(*) FROM {change['table']}").fetchone()
                assert found == (change["kept"],)


def test_a_baseline_fits_its_schema(tmp_path: FilePath) -> None:
    write_baseline(tmp_path / "b.json", small())
    values = json.loads((tmp_path / "b.json").read_text())
    validator("baseline").validate(values)
    assert not validator("baseline").is_valid({**values, "report": None})
    assert set(OUTPUTS) | {"baseline"} == set(DOCUMENTS)


# A codec is as good as the types: here some of its own.


@dataclass(frozen=True)
class Part:
    n: Count
    note: Later[str] = "none"


@dataclass(frozen=True)
class Whole(Document):
    json_format: ClassVar = ("nsysoverlap.whole", 2)
    parts: tuple[Part, ...]
    added: Later[Part | None] = None


@pytest.mark.parametrize("version", [1, 2])
def test_a_key_added_later_may_be_missing_and_is_always_written(version: int) -> None:
    old = {"format": "nsysoverlap.whole", "format_version": version, "generator": "g"}
    found = read({**old, "parts": [{"n": 3}]}, Whole, "hint")
    assert found == Whole((Part(3),), generator="g")
    assert plain_data(found) == {
        "format": "nsysoverlap.whole",
        "format_version": 2,
        "generator": "g",
        "parts": [{"n": 3, "note": "none"}],
        "added": None,
    }
    with pytest.raises(
        ConfigError, match=r"^whole\.parts\[0\]\.note should be a string, not 3\. hint$"
    ):
        read({**old, "parts": [{"n": 3, "note": 3}]}, Whole, "hint")
    with pytest.raises(ConfigError, match=r"^whole\.parts\[0\] lacks 'n'\. hint$"):
        read({**old, "parts": [{}]}, Whole, "hint")
    assert schema(Whole)["$defs"]["Part"]["required"] == ["n", "note"]
