"""What a gate asks for: from options and from the `[gate]` table of a configuration file.

[gate]
require_transfers = "8GiB"         # or true
min_hidden = "90%"                 # also min_hidden_h2d, min_hidden_d2h, min_covered, min_relief
max_exposed_ms = 12.5
max_peak_gib = 28.6                # by the manifest beside the trace
max_drop = 1                       # points, against baseline
max_exposed_growth = "5%"
max_gain_ms = 20
confidence = 95
require = ["h2d.hidden@worst-rank >= 60%"]
baseline = "baseline.json"         # relative to this file
"""

from __future__ import annotations

import difflib
import operator
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError, UsageError
from ..core.limits import Unit, parse_limit, parse_percent
from ..core.records import dataclass
from ..result.metrics import METRICS, Metric, Scope, parse_metric

_MINIMA = {
    "min_hidden": "both.hidden",
    "min_hidden_h2d": "h2d.hidden",
    "min_hidden_d2h": "d2h.hidden",
    "min_covered": "both.covered",
    "min_relief": "relief",
}
KEYS = (
    "require_transfers",
    *_MINIMA,
    "max_exposed_ms",
    "max_peak_gib",
    "max_drop",
    "max_exposed_growth",
    "max_gain_ms",
    "confidence",
    "require",
    "baseline",
)
"""Keys of `[gate]`; each is an option too, with dashes."""
OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
ANY_TRANSFERS = "any"
"""Value of `require_transfers` that asks for one transfer of any size."""
_REQUIREMENT = re.compile(r"\s*([^\s<>=]+)\s*(>=|<=|>|<)\s*(.+?)\s*")


@dataclass(frozen=True)
class Requirement:
    """`metric@scope op limit`, the limit in base units. `source` is how the user wrote it.

    `scope` None is per step: the median over steps where there are steps, else the worst device.
    """

    metric: Metric
    scope: Scope | None
    op: str
    limit: Fraction
    source: str


@dataclass(frozen=True)
class Thresholds:
    """Everything a gate checks. Shares as fractions of 1; None where not asked for."""

    requirements: tuple[Requirement, ...] = ()
    max_drop: Fraction | None = None
    max_exposed_growth: Fraction | None = None
    max_gain: tuple[Fraction, str] | None = None
    """In ns, and how the user wrote it."""
    confidence: Fraction | None = None
    baseline: Path | None = None

    @property
    def relative(self) -> bool:
        """Whether a limit asks for something to compare with."""
        return self.max_drop is not None or self.max_exposed_growth is not None


def parse_requirement(text: str, what: str = "--require") -> Requirement:
    """`h2d.hidden@worst-rank >= 60%`. Raises `UsageError` for what cannot be understood."""
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{what}: {text!r} is not METRIC[@SCOPE] OPERATOR LIMIT.",
            "Write something like 'h2d.hidden@worst-rank >= 60%'; operators are >=, <=, > and <.",
        )
    metric, scope = parse_metric(match[1], what)
    limit = parse_limit(match[3], metric.unit, what)
    return Requirement(metric, scope, match[2], limit, text.strip())


def build_thresholds(
    options: Mapping[str, Any], file_values: Mapping[str, str | list[str]] | None = None
) -> Thresholds:
    """Options (by key of `KEYS`, None where not given) over the values of a file.

    `require` of both adds up; of every other key the option wins. Raises `UsageError` for values
    and combinations that make no sense.
    """
    given = {key: value for key, value in options.items() if value not in (None, (), [])}
    named = {f"--{key.replace('_', '-')}": key for key in KEYS}
    values: dict[str, tuple[str, Any]] = {
        key: (f"[gate] {key}", value) for key, value in (file_values or {}).items()
    }
    from_file = values.pop("require", ("", []))[1]
    values |= {key: (name, given[key]) for name, key in named.items() if key in given}
    required = [
        *(parse_requirement(text, "[gate] require") for text in from_file),
        *(parse_requirement(text) for text in given.get("require", ())),
    ]
    if "confidence" in values and "max_drop" not in values:
        raise UsageError(
            "--confidence decides on --max-drop, which is missing.",
            "Add it, as in --max-drop 1 --confidence 95; --baseline alone allows one point.",
        )
    return Thresholds(
        requirements=(*_simple(values), *required),
        max_drop=_percent(values, "max_drop"),
        max_exposed_growth=_percent(values, "max_exposed_growth", most=None),
        max_gain=_gain(values),
        confidence=_confidence(values),
        baseline=Path(values["baseline"][1]) if "baseline" in values else None,
    )


def _simple(values: Mapping[str, tuple[str, Any]]) -> Iterable[Requirement]:
    """The options that stand for one requirement each."""
    if "require_transfers" in values:
        name, text = values["require_transfers"]
        least = METRICS["both.bytes"]
        if text == ANY_TRANSFERS:
            yield Requirement(METRICS["both.n"], Scope.WORST_RANK, ">=", Fraction(1), name)
        else:
            limit = parse_limit(text, Unit.BYTES, name)
            if not limit:
                raise UsageError(
                    f"{name}: 0 bytes ask for nothing.", "Give a size, or no value at all."
                )
            yield Requirement(least, Scope.WORST_RANK, ">=", limit, f"{name} {text}")
    for key, metric in _MINIMA.items():
        if key in values:
            name, text = values[key]
            limit = parse_percent(text, name)
            yield Requirement(METRICS[metric], Scope.TOTAL, ">=", limit, f"{name} {text}")
    if "max_exposed_ms" in values:
        name, text = values["max_exposed_ms"]
        limit = parse_limit(text, Unit.TIME, name)
        yield Requirement(METRICS["both.exposed_ms"], None, "<=", limit, f"{name} {text}")
    if "max_peak_gib" in values:
        name, text = values["max_peak_gib"]
        limit = parse_limit(f"{text.strip().removesuffix('GiB')}GiB", Unit.BYTES, name)
        peak = METRICS["peak_bytes"]
        yield Requirement(peak, peak.default_scope, "<=", limit, f"{name} {text}")


def _percent(
    values: Mapping[str, tuple[str, Any]], key: str, most: int | None = 100
) -> Fraction | None:
    if key not in values:
        return None
    name, text = values[key]
    return parse_percent(text, name, most)


def _gain(values: Mapping[str, tuple[str, Any]]) -> tuple[Fraction, str] | None:
    if "max_gain_ms" not in values:
        return None
    name, text = values["max_gain_ms"]
    return parse_limit(text, Unit.TIME, name), f"{name} {text}"


def _confidence(values: Mapping[str, tuple[str, Any]]) -> Fraction | None:
    if "confidence" not in values:
        return None
    name, text = values["confidence"]
    hint = "Write 50 to 99.9, such as 95."
    try:
        level = parse_percent(text, name)
    except UsageError as error:
        raise UsageError(error.message, hint) from error
    if not Fraction(1, 2) <= level <= Fraction(999, 1000):
        raise UsageError(f"{name}: {text!r} is no level to decide by.", hint)
    return level


def load_gate_table(path: Path) -> dict[str, str | list[str]]:
    """The `[gate]` table of a configuration file, as texts that options could have given.

    The file has been read as a configuration before. Raises `ConfigError` for an unknown key or
    a value of the wrong type.
    """
    table = tomllib.loads(path.read_bytes().decode("utf-8-sig")).get("gate", {})
    if not isinstance(table, dict):
        raise ConfigError(f"{path.name}: gate must be a table.", "Write [gate] above its keys.")
    return {
        key: text
        for key, value in table.items()
        if (text := _file_value(path, key, value)) is not None
    }


def _file_value(path: Path, key: str, value: object) -> str | list[str] | None:
    if key not in KEYS:
        near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known here: {', '.join(KEYS)}."
        raise ConfigError(f"{path.name}: gate.{key} is not a known key.", hint)
    if key == "require":
        texts = [value] if isinstance(value, str) else value
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
            return texts
        raise ConfigError(f"{path.name}: gate.require must be a list of texts.", 'Use ["..."].')
    if key == "require_transfers" and isinstance(value, bool):
        return ANY_TRANSFERS if value else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(
            f"{path.name}: gate.{key} must be a number or a text.", 'Write 90 or "90%".'
        )
    if key == "baseline":
        return str(path.parent / str(value))
    return str(value)
