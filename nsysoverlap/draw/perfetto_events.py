"""Single events of the Chrome trace format, each as one line of JSON.

Times are microseconds with three decimals, so that every nanosecond is kept. Names and arguments
come as JSON already, because most of them are used by many events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..core.formatting import clean_text


def quoted(text: str) -> str:
    """Text of a trace as a JSON string."""
    return json.dumps(clean_text(text))


def arguments(values: dict[str, Any]) -> str:
    """Arguments of an event; None is left out."""
    return json.dumps({name: value for name, value in values.items() if value is not None})


def micro(ns: int) -> str:
    """Nanoseconds as microseconds, exactly."""
    whole, rest = divmod(abs(ns), 1000)
    return f"{'-' if ns < 0 else ''}{whole}.{rest:03d}"


@dataclass(frozen=True)
class Events:
    """Makes the events of a trace; the file's time is that of the trace and `shift_ns`."""

    shift_ns: int = 0

    def _at(self, ns: int) -> str:
        return micro(ns + self.shift_ns)

    def slice(
        self,
        track: tuple[int, int],
        name: str,
        category: str,
        start_ns: int,
        end_ns: int,
        args: str = "",
    ) -> str:
        """Something that lasted, on a track `(pid, tid)`."""
        pid, tid = track
        tail = f',"args":{args}' if args else ""
        return (
            f'{{"ph":"X","pid":{pid},"tid":{tid},"ts":{self._at(start_ns)},'
            f'"dur":{micro(end_ns - start_ns)},"name":{name},"cat":"{category}"{tail}}}'
        )

    def instant(
        self, track: tuple[int, int], name: str, category: str, at_ns: int, args: str
    ) -> str:
        """Something at one time."""
        pid, tid = track
        return (
            f'{{"ph":"i","s":"t","pid":{pid},"tid":{tid},"ts":{self._at(at_ns)},"name":{name},'
            f'"cat":"{category}","args":{args}}}'
        )

    def flow(
        self,
        number: int,
        source: tuple[int, int],
        start_ns: int,
        target: tuple[int, int],
        end_ns: int,
    ) -> str:
        """An arrow from the slice around `start_ns` on a track to that at `end_ns` on another."""
        head = f'"id":{number},"name":"launch","cat":"launch"'
        (pid, tid), (to_pid, to_tid) = source, target
        return (
            f'{{"ph":"s","pid":{pid},"tid":{tid},"ts":{self._at(start_ns)},{head}}},\n'
            f'{{"ph":"f","bp":"e","pid":{to_pid},"tid":{to_tid},"ts":{self._at(end_ns)},{head}}}'
        )

    def counter(self, pid: int, name: str, at_ns: int, unit: str, value: str) -> str:
        """A new value of a counter; `value` is a number as text."""
        at = self._at(at_ns)
        return f'{{"ph":"C","pid":{pid},"ts":{at},"name":{name},"args":{{"{unit}":{value}}}}}'


def named(kind: str, pid: int, tid: int, name: str, place: int) -> str:
    """Name and place of a `process` or `thread`, as two metadata events."""
    head = f'{{"ph":"M","pid":{pid},"tid":{tid}'
    return (
        f'{head},"name":"{kind}_name","args":{{"name":{quoted(name)}}}}},\n'
        f'{head},"name":"{kind}_sort_index","args":{{"sort_index":{place}}}}}'
    )
