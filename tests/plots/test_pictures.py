"""The pictures of the documentation are those that `docs/pictures.py` draws, and all are used."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from . import kit

DOCS = Path(__file__).parents[2] / "docs"


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_pictures", DOCS / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SCRIPT = _script()


@pytest.mark.parametrize("shot", SCRIPT.SHOTS, ids=lambda shot: shot.name)
def test_pictures_are_up_to_date(shot: object, tmp_path: Path) -> None:
    actual = tmp_path / f"{shot.name}.png"  # type: ignore[attr-defined]
    actual.write_bytes(SCRIPT.draw(shot))
    expected = DOCS / "pictures" / actual.name
    assert kit.difference(expected, actual) is None, "run: python docs/pictures.py"


def test_every_picture_is_shown_and_every_shown_picture_exists() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    shown = set(re.findall(r"\]\(pictures/(\w+\.png)\)", pages))
    there = {path.name for path in (DOCS / "pictures").glob("*.png")}
    assert shown == there == {f"{shot.name}.png" for shot in SCRIPT.SHOTS}


def test_pictures_are_small_enough_for_a_page() -> None:
    sizes = {path.name: path.stat().st_size for path in (DOCS / "pictures").glob("*.png")}
    assert sizes
    assert max(sizes.values()) < 250_000
