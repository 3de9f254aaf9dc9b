"""Configurations written as TOML: what `load_config` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .config import Config


def toml_text(config: Config) -> str:
    """The configuration but for its name, which is the file's."""
    values = {key: value for key, value in config.to_dict().items() if key != "name"}
    return "\n".join(_tables(values)) + "\n"


def section_text(name: str, values: Mapping[str, Any]) -> str:
    """One table and those within it."""
    return "\n".join(_table(name, values)) + "\n"


def _tables(values: Mapping[str, Any]) -> list[str]:
    return [line for key, value in values.items() for line in _table(key, value)]


def _table(name: str, values: Mapping[str, Any]) -> list[str]:
    plain = {key: value for key, value in values.items() if not isinstance(value, Mapping)}
    lines = [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in plain.items())]
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            lines += _table(f"{name}.{key}", value)
    return lines
