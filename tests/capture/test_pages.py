"""The pages about the driver name what it has."""

from __future__ import annotations

import re

import pytest

from capture.arms import FIXED
from capture.cli import cli
from capture.config import preset_names

from .kit import ROOT

CAPTURE = (ROOT / "docs" / "capture.md").read_text(encoding="utf-8")
GB200 = (ROOT / "docs" / "gb200.md").read_text(encoding="utf-8")


def words(page: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", page))


@pytest.mark.parametrize("name", [arm.name for arm in FIXED])
def test_every_arm_is_explained(name: str) -> None:
    assert name in words(CAPTURE)


def test_every_command_and_preset_is_named() -> None:
    assert set(cli.commands) <= words(CAPTURE)
    assert set(preset_names()) <= words(CAPTURE)


def test_commands_on_the_gb200_page_name_arms_and_presets_that_exist() -> None:
    arms = {arm.name for arm in FIXED}
    joined = GB200.replace("\\\n", " ")
    commands = re.findall(r"submit\.sh (?:--dry-run )?(\d+) (\S+) \S+ (.*)", joined)
    assert len(commands) == 3
    for nodes, preset, named in commands:
        assert 1 <= int(nodes) <= 32
        assert preset in preset_names()
        assert set(named.split()) <= arms


def test_it_says_that_no_gb200_was_at_hand() -> None:
    assert "No GB200 was at hand" in " ".join(GB200.split())
