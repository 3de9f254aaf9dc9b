"""The configuration file: the user's own rules, link rates, and whether to trust kernel names.

    transfer_kernels = "auto"          # or "off"

    [links]
    h2d_gbps = 63
    d2h_gbps = 63

    [clock]                            # of this machine, see docs/whatif.md
    exponent = 0.08                    # or pair = ["offload.sqlite", "save.sqlite"]
    floor = 0.68                       # with a pair optional

    [[rule]]
    name = "my-ring"                   # optional
    pattern = "my_ring_(send|recv)"    # regex, searched in the demangled kernel name
    role = "comm"                      # compute, comm, h2d, d2h or other
    why = "our own ring"               # optional

Only `--config FILE` reads one; nothing is searched for.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from ..core.records import dataclass
from .clock import DEFAULT_LAW, ClockLaw, ClockPair
from .links import MOST_GBPS, LinkOverride
from .rule_table import Role, Rule
from .rules import RuleSet

ROLES: Mapping[str, Role] = {
    role.name.lower(): role for role in (Role.COMPUTE, Role.COMM, Role.H2D, Role.D2H, Role.OTHER)
}
USER_CATEGORY = "config"
# `gate` belongs to the thresholds of the gate, which are not this module's to judge.
_TOP_KEYS = ("rule", "links", "clock", "transfer_kernels", "gate")
_RULE_KEYS = ("name", "pattern", "role", "why")
_LINK_KEYS = ("h2d_gbps", "d2h_gbps")
_CLOCK_KEYS = ("exponent", "floor")
_PAIR_KEYS = ("pair", "floor")
_TRANSFER_KERNELS = {"auto": True, "off": False}


@dataclass(frozen=True)
class Config:
    """What a configuration file says. `name` is its base name, which reports show.

    `transfer_kernels`, `links` and `clock` are None where the file does not set them.
    """

    name: str
    user_rules: tuple[Rule, ...] = ()
    transfer_kernels: bool | None = None
    links: LinkOverride | None = None
    clock: ClockLaw | ClockPair | None = None

    def rule_set(self, transfer_kernels: bool | None = None) -> RuleSet:
        """The user's rules before the built-in ones; an argument wins over the file."""
        chosen = self.transfer_kernels if transfer_kernels is None else transfer_kernels
        return RuleSet(user_rules=self.user_rules, transfer_kernels=chosen is not False)


def load_config(path: str | Path) -> Config:
    """Read a TOML configuration file.

    Raises `ConfigError`, naming file and key, for a file that cannot be read, is no TOML, or
    holds a key or value that makes no sense.
    """
    path = Path(path)
    return _Reader(path.name, path.parent).config(_parse(path))


def _parse(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path.name}: is not UTF-8 text (byte {error.start}).", "Save the file as UTF-8."
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{path.name or path}: the configuration cannot be read ({reason}).", "Check the path."
        ) from error
    try:
        return tomllib.loads(text)
    # ValueError: a number of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path.name}: is not valid TOML: {error}.", "Correct that line."
        ) from error


@dataclass(frozen=True)
class _Reader:
    """Checks values and raises errors that name the file and the key."""

    file_name: str
    folder: Path
    """Paths in the file are relative to it."""

    def config(self, values: Mapping[str, Any]) -> Config:
        self._known(values, _TOP_KEYS, "")
        tables = values.get("rule", [])
        if not isinstance(tables, list):
            raise self._error("rule", "must be an array of tables", "Write [[rule]], not [rule].")
        return Config(
            name=self.file_name,
            user_rules=tuple(self._rule(table, i) for i, table in enumerate(tables, start=1)),
            transfer_kernels=self._transfer_kernels(values.get("transfer_kernels")),
            links=self._links(values.get("links")),
            clock=self._clock(values.get("clock")),
        )

    def _rule(self, value: object, number: int) -> Rule:
        key = f"rule {number}"
        table = self._table(value, key, "Write [[rule]] above its keys.")
        self._known(table, _RULE_KEYS, f"{key}: ")
        for required in ("pattern", "role"):
            if required not in table:
                raise self._error(key, f"has no {required}", "A rule needs a pattern and a role.")
        for name, text in table.items():
            if not isinstance(text, str):
                raise self._error(f"{key}: {name}", "must be a text", "Put it in quotes.")
        role = ROLES.get(table["role"])
        if role is None:
            raise self._error(
                f"{key}: role",
                f"{table['role']!r} is not a role",
                _suggest(table["role"], ROLES),
            )
        self._check_pattern(table["pattern"], key)
        return Rule(
            name=table.get("name", f"{USER_CATEGORY}-{number}"),
            category=USER_CATEGORY,
            role=role,
            pattern=table["pattern"],
            why=table.get("why", f"Rule {number} of {self.file_name}."),
        )

    def _check_pattern(self, pattern: str, key: str) -> None:
        if not pattern:
            raise self._error(
                f"{key}: pattern", "is empty and would take every kernel", 'Write ".*" for that.'
            )
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise self._error(
                f"{key}: pattern",
                f"{pattern!r} is not a regular expression ({error})",
                "In TOML, single quotes keep backslashes as they are.",
            ) from error

    def _transfer_kernels(self, value: object) -> bool | None:
        if value is None:
            return None
        if not isinstance(value, str) or value not in _TRANSFER_KERNELS:
            raise self._error("transfer_kernels", f"cannot be {value!r}", 'Write "auto" or "off".')
        return _TRANSFER_KERNELS[value]

    def _links(self, value: object) -> LinkOverride | None:
        if value is None:
            return None
        table = self._table(value, "links", "Write [links] above its keys.")
        self._known(table, _LINK_KEYS, "links.")
        return LinkOverride(*(self._rate(table, key) for key in _LINK_KEYS))

    def _rate(self, links: Mapping[str, Any], key: str) -> float:
        if key not in links:
            raise self._error("links", f"has no {key}", f"Give both {' and '.join(_LINK_KEYS)}.")
        rate = links[key]
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < MOST_GBPS:
            raise self._error(
                f"links.{key}", f"cannot be {rate!r}", "Write a rate in GB/s above 0, such as 63."
            )
        return float(rate)

    def _clock(self, value: object) -> ClockLaw | ClockPair | None:
        if value is None:
            return None
        table = self._table(value, "clock", "Write [clock] above its keys.")
        if "pair" in table:
            self._known(table, _PAIR_KEYS, "clock.")
            floor = self._share({"floor": DEFAULT_LAW.floor, **table}, "floor")
            return ClockPair(*self._pair(table["pair"]), floor)
        self._known(table, (*_CLOCK_KEYS, "pair"), "clock.")
        exponent, floor = (self._share(table, key) for key in _CLOCK_KEYS)
        return ClockLaw(exponent, floor)

    def _pair(self, value: object) -> tuple[Path, Path]:
        texts = value if isinstance(value, list) else []
        if len(texts) != 2 or not all(isinstance(text, str) and text for text in texts):
            raise self._error(
                "clock.pair",
                f"cannot be {value!r}",
                'Write two traces of one program, such as ["offload.sqlite", "save.sqlite"].',
            )
        first, second = (self.folder / text for text in texts)
        return first, second

    def _share(self, clock: Mapping[str, Any], key: str) -> float:
        if key not in clock:
            raise self._error("clock", f"has no {key}", f"Give both {' and '.join(_CLOCK_KEYS)}.")
        share = clock[key]
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise self._error(
                f"clock.{key}", f"cannot be {share!r}", "Write a number from 0 to 1, such as 0.08."
            )
        return float(share)

    def _table(self, value: object, key: str, hint: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self._error(key, "must be a table", hint)
        return value

    def _known(self, table: Mapping[str, Any], known: Collection[str], prefix: str) -> None:
        for key in table:
            if key not in known:
                raise self._error(f"{prefix}{key}", "is not a known key", _suggest(key, known))

    def _error(self, key: str, problem: str, hint: str) -> ConfigError:
        return ConfigError(f"{self.file_name}: {key} {problem}.", hint)


def _suggest(wrong: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(wrong.lower(), known, n=1, cutoff=0.5)
    question = f"Did you mean '{near[0]}'? " if near else ""
    return f"{question}Known here: {', '.join(known)}."
