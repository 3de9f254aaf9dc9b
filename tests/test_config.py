"""The configuration file: what it can say, and how each mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap.core.errors import ConfigError
from nsysoverlap.roles.config import Config, load_config
from nsysoverlap.roles.links import LinkOverride
from nsysoverlap.roles.rules import Role

FULL = r"""
transfer_kernels = "off"

[links]
h2d_gbps = 63
d2h_gbps = 52.5

[[rule]]
name = "my-ring"
pattern = 'my_ring_(send|recv)\b'
role = "comm"
why = "our own ring"

[[rule]]
pattern = "^wrapped_dynamic_slice"
role = "compute"

[gate]
anything = ["h2d.hidden >= 60%"]
"""


def config_of(tmp_path: Path, text: str | bytes) -> Config:
    path = tmp_path / "mine.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config(path)


def test_a_full_file(tmp_path: Path) -> None:
    config = config_of(tmp_path, FULL)
    assert config.name == "mine.toml"
    assert config.links == LinkOverride(63.0, 52.5)
    assert config.transfer_kernels is False
    ring, slices = config.user_rules
    assert (ring.name, ring.role, ring.why) == ("my-ring", Role.COMM, "our own ring")
    assert (slices.name, slices.role, slices.why) == (
        "config-2",
        Role.COMPUTE,
        "Rule 2 of mine.toml.",
    )


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    assert config_of(tmp_path, "") == Config("mine.toml")


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert config_of(tmp_path, b"\xef\xbb\xbftransfer_kernels = 'off'").transfer_kernels is False


def test_the_files_rules_come_before_the_built_in_ones(tmp_path: Path) -> None:
    rules = config_of(tmp_path, FULL).rule_set()
    assert rules.rule_for("void my_ring_send<float>(float *)").name == "my-ring"
    assert rules.rule_for("wrapped_dynamic_slice_1").name == "config-2"
    assert rules.rule_for("ncclDevKernel_SendRecv").name == "nccl"


@pytest.mark.parametrize(
    ("file_says", "option", "expected"),
    [
        ("", None, True),
        ('transfer_kernels = "auto"', None, True),
        ('transfer_kernels = "off"', None, False),
        ('transfer_kernels = "off"', True, True),
        ('transfer_kernels = "auto"', False, False),
    ],
)
def test_an_option_wins_over_the_file(
    tmp_path: Path, file_says: str, option: bool | None, expected: bool
) -> None:
    assert config_of(tmp_path, file_says).rule_set(option).transfer_kernels is expected


@pytest.mark.parametrize("role", ["compute", "comm", "h2d", "d2h", "other"])
def test_roles_by_name(tmp_path: Path, role: str) -> None:
    (rule,) = config_of(tmp_path, f'[[rule]]\npattern = "x"\nrole = "{role}"').user_rules
    assert rule.role is Role[role.upper()]


RULE = '[[rule]]\npattern = "x"\nrole = "comm"\n'


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("a = \n", "mine.toml: is not valid TOML", "line"),
        ("a = " + "[" * 5000, "mine.toml: is not valid TOML", "line"),
        ("[[rule]\n", "(at line 1", "line"),
        (b"# caf\xe9\n", "mine.toml: is not UTF-8 text (byte 5)", "UTF-8"),
        ("rules = []", "mine.toml: rules is not a known key", "Did you mean 'rule'?"),
        ("zzz = 1", "zzz is not a known key", "Known here: rule, links, clock,"),
        ("[links]\nh2d = 1", "links.h2d is not a known key", "Did you mean 'h2d_gbps'?"),
        (RULE + 'patern = "x"', "rule 1: patern is not a known key", "Did you mean 'pattern'?"),
        (RULE + '[[rule]]\nrole = "comm"', "rule 2 has no pattern", "needs"),
        ('[[rule]]\npattern = "x"', "rule 1 has no role", "needs"),
        (
            '[[rule]]\npattern = "("\nrole = "comm"',
            "rule 1: pattern '(' is not a regular expression (missing ), unterminated",
            "single quotes",
        ),
        (
            '[[rule]]\npattern = "x{99999999999999}"\nrole = "comm"',
            "'x{99999999999999}' is not a regular expression",
            "single quotes",
        ),
        ('[[rule]]\npattern = "\\n("\nrole = "comm"', r"pattern '\n(' is not", "single quotes"),
        ('[[rule]]\npattern = ""\nrole = "comm"', "pattern is empty", ".*"),
        ('[[rule]]\npattern = 3\nrole = "comm"', "rule 1: pattern must be a text", "quotes"),
        (
            '[[rule]]\npattern = "x"\nrole = "comms"',
            "rule 1: role 'comms' is not a role",
            "Did you mean 'comm'?",
        ),
        (
            '[[rule]]\npattern = "x"\nrole = "opaque"',
            "'opaque' is not a role",
            "Known here: compute, comm, h2d, d2h, other.",
        ),
        ('[rule]\npattern = "x"', "rule must be an array of tables", "[[rule]]"),
        ("rule = [1]", "rule 1 must be a table", "[[rule]]"),
        ("links = 63", "links must be a table", "[links]"),
        ("[links]\nh2d_gbps = 63", "links has no d2h_gbps", "both"),
        ("[links]\nh2d_gbps = -1\nd2h_gbps = 1", "links.h2d_gbps cannot be -1", "GB/s"),
        ("[links]\nh2d_gbps = 0\nd2h_gbps = 1", "links.h2d_gbps cannot be 0", "GB/s"),
        ("[links]\nh2d_gbps = 1\nd2h_gbps = inf", "links.d2h_gbps cannot be inf", "GB/s"),
        (f"[links]\nh2d_gbps = 1{'0' * 400}\nd2h_gbps = 1", "links.h2d_gbps cannot be 1", "GB/s"),
        (f"[links]\nh2d_gbps = 1{'0' * 5000}\nd2h_gbps = 1", "is not valid TOML", "Correct"),
        ("[links]\nh2d_gbps = nan\nd2h_gbps = 1", "links.h2d_gbps cannot be nan", "GB/s"),
        ("[links]\nh2d_gbps = true\nd2h_gbps = 1", "links.h2d_gbps cannot be True", "GB/s"),
        ('[links]\nh2d_gbps = "63"\nd2h_gbps = 1', "links.h2d_gbps cannot be '63'", "GB/s"),
        ('transfer_kernels = "on"', "transfer_kernels cannot be 'on'", '"auto" or "off"'),
        ("transfer_kernels = false", "transfer_kernels cannot be False", '"auto" or "off"'),
        ("transfer_kernels = []", "transfer_kernels cannot be []", '"auto" or "off"'),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, text: str | bytes, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(tmp_path, text)
    assert caught.value.message.startswith("mine.toml: ")
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert hint in caught.value.hint


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml: .*No such file"):
        load_config(tmp_path / "gone.toml")
    with pytest.raises(ConfigError, match=r"directory"):
        load_config(tmp_path)
