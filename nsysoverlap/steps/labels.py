"""What an NVTX label says: XLA's `Thunk:#key=value,...#` taken apart, any other text as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import lru_cache

from ..core.records import dataclass

_DIGITS = re.compile(r"\d+")
STEP_LIKE = re.compile(
    # Of one word with what it counts, such as ProfilerStep; not timestep_embed, steps, batch_norm.
    r"(?<![A-Za-z])(?:(?:global|train|training|time|profiler|mini)[ _-]?)?"
    r"(?:step|iter(?:ation)?|batch)(?=$|[ _#:=\[({/.-]*\d)"
    # From the first # on: from every one, a long text of them would take minutes.
    r"|^[^#]*#(?:.*[,#])?step_num=\d+",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"((?<![A-Za-z])(?:epoch|micro[ _-]?batch|chunk|request|token)[ _#:=]*)\d+(?:\s*/\s*\d+)?",
    re.IGNORECASE,
)
"""Numbers that count; those of layers.3 and fusion.12 tell one from another."""
_REQUEST = re.compile(r"\[\d+\]$")
_SUFFIX = re.compile(r",\s*(?:seq|op_id|sizes|input_op_ids|counters?)\s*=.*$", re.DOTALL)
"""What PyTorch writes behind the name of an operation."""
_DOMAIN = re.compile(r"^(?:TSL|DeepSpeed|NCCL|TensorRT-LLM):(?=\S)(?!:)")
"""The domain, which some exports put before a text."""
_PAYLOAD = re.compile(r"[A-Za-z][\w:]*:#(?P<pairs>.*)#", re.DOTALL)
_PAIR = re.compile(r"(?P<key>[A-Za-z_][\w.-]*)=(?P<value>.*)", re.DOTALL)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Label:
    """One NVTX text: `op` names the operation, `name` its scope ('' where the text has none).

    `keys` holds all key=value pairs of an XLA text, also those not known today; empty otherwise.
    """

    op: str
    name: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)


def without_suffix(text: str) -> str:
    """A text without its domain and without what PyTorch counts behind a name:
    `aten::mm, seq = 12, op_id = 3` gives `aten::mm`.
    """
    return _SUFFIX.sub("", _DOMAIN.sub("", text, count=1), count=1)


def without_counters(text: str) -> str:
    """A text as it is in every step: `step 12` gives `step N`, `layers.3` stays as it is."""
    text = without_suffix(text)
    if STEP_LIKE.search(text):
        return _DIGITS.sub("N", text)
    return _REQUEST.sub("[N]", _COUNTED.sub(r"\1N", text))


@lru_cache(maxsize=1 << 14)
def parse_label(text: str) -> Label:
    """Take a label apart.

    `op` is the first there is of `hlo_op`, `name`, `hlo_module` and the text itself. A payload
    that is cut off or no list of pairs gives the text itself too.
    """
    match = _PAYLOAD.fullmatch(text)
    keys = _pairs(match["pairs"]) if match else None
    if keys is None:
        return Label(text)
    name = keys.get("name", "")
    return Label(keys.get("hlo_op") or name or keys.get("hlo_module") or text, name, keys)


def _pairs(payload: str) -> dict[str, str] | None:
    """Key=value pairs between commas; None where the payload is broken."""
    pairs: dict[str, str] = {}
    key = ""
    for part in _split(payload):
        if part is None:
            return None
        if match := _PAIR.fullmatch(part):
            key = match["key"]
            pairs[key] = match["value"]
        elif key:
            # No new pair: the comma belongs to the value before it.
            pairs[key] += f",{part}"
        else:
            return None
    return pairs


def _split(payload: str) -> Iterator[str | None]:
    """Parts between commas that lie in no brackets; a last None where brackets do not match."""
    begin, expected = 0, []
    for at, char in enumerate(payload):
        if char in _CLOSING:
            expected.append(_CLOSING[char])
        elif char in _CLOSING.values():
            if not expected or expected.pop() != char:
                yield None
                return
        elif char == "," and not expected:
            yield payload[begin:at]
            begin = at + 1
    yield None if expected else payload[begin:]
