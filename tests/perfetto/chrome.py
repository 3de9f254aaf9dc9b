"""Reads Chrome trace JSON as the format's description says, with exact times.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

Track = tuple[int, int]


@dataclass(frozen=True)
class Slice:
    """A complete event; times in ns."""

    track: Track
    name: str
    category: str
    start: int
    end: int
    args: dict[str, Any]


@dataclass
class ChromeTrace:
    """All events by kind; `flows` holds ((track, ns) of the start, (track, ns) of the end)."""

    other: dict[str, Any]
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[Track, str] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    instants: list[Slice] = field(default_factory=list)
    flows: list[tuple[tuple[Track, int], tuple[Track, int]]] = field(default_factory=list)
    counters: dict[tuple[int, str], list[tuple[int, Decimal]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def of(self, category: str, pid: int | None = None) -> list[Slice]:
        """Slices of one category, of one process or of all."""
        found = [one for one in self.slices if one.category == category]
        return [one for one in found if pid is None or one.track[0] == pid]

    @property
    def devices(self) -> list[int]:
        """Processes that are GPUs."""
        return [pid for pid, name in self.processes.items() if not name.startswith("host")]


def nanoseconds(value: Any) -> int:
    """A time or duration of the file, which are microseconds."""
    ns = Decimal(value) * 1000
    assert ns == int(ns), f"{value} us is no whole number of nanoseconds"
    return int(ns)


def read_chrome(path: Path) -> ChromeTrace:
    """Read a file; raises on anything that the format does not know."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    data = json.loads(raw.decode("utf-8"), parse_float=Decimal)
    trace = ChromeTrace(data["otherData"])
    assert data["displayTimeUnit"] == "ns"
    begun: dict[Any, tuple[Track, int]] = {}
    done: dict[Any, tuple[Track, int]] = {}
    for event in data["traceEvents"]:
        _take(trace, event, begun, done)
    assert begun.keys() == done.keys()
    trace.flows = [(begun[number], done[number]) for number in begun]
    return trace


def _take(trace: ChromeTrace, event: dict[str, Any], begun: Any, done: Any) -> None:
    kind, pid = event["ph"], event["pid"]
    track = (pid, event.get("tid", 0))
    if kind == "M":
        names: dict[Any, str] = {"process_name": trace.processes, "thread_name": trace.threads}.get(
            event["name"], {}
        )  # type: ignore[assignment]
        key = pid if event["name"].startswith("process") else track
        assert key not in names
        names[key] = event["args"].get("name", "")
        return
    at = nanoseconds(event["ts"])
    if kind in "sf":
        side = begun if kind == "s" else done
        assert event["id"] not in side
        assert kind == "s" or event["bp"] == "e"
        side[event["id"]] = track, at
    elif kind == "C":
        (value,) = event["args"].values()
        trace.counters[pid, event["name"]].append((at, Decimal(value)))
    else:
        assert kind in "Xi"
        length = nanoseconds(event["dur"]) if kind == "X" else 0
        assert length >= 0
        one = Slice(track, event["name"], event["cat"], at, at + length, event.get("args", {}))
        (trace.slices if kind == "X" else trace.instants).append(one)
