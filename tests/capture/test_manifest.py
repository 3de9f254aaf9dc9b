"""The manifest beside a trace, of a run as a user starts it; and the run whose events were lost."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from capture.config import config_from
from capture.manifest import flags_seen
from capture.options import recorded_environment
from capture.results import load_rows

from .conftest import Recorded
from .kit import ROOT, say, tiny

SCHEMA = json.loads((ROOT / "capture" / "manifest.schema.json").read_text(encoding="utf-8"))


def manifest_of(recorded: Recorded) -> dict[str, Any]:
    text = (recorded.folder / "manifest.json").read_text(encoding="utf-8")
    values: dict[str, Any] = json.loads(text)
    return values


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_lost_events_make_the_run_void(recorded: Recorded) -> None:
    assert recorded.process.returncode == 3, recorded.process.stderr
    assert "**void**: the recording cannot be trusted" in recorded.process.stdout
    (row,) = load_rows(recorded.folder.parent)
    assert row.status == "void"
    assert row.step_ms is not None
    assert (row.d2h_hidden, row.predicted_ms) == (None, None)


def test_the_recording_is_finished_by_the_driver(recorded: Recorded) -> None:
    log = (recorded.folder / "log.txt").read_text(encoding="utf-8")
    assert "Importer error status" in log
    assert "recording 1 step through libcudart.so" in log
    assert (recorded.folder / "trace.sqlite").is_file()
    assert not (recorded.folder / "trace.qdstrm").exists()


def test_the_manifest_follows_its_schema(recorded: Recorded) -> None:
    manifest = manifest_of(recorded)
    jsonschema.validate(manifest, SCHEMA)
    assert manifest["status"] == "ok"
    assert manifest["arm"] == "lhs"
    assert manifest["mesh"] == {"fsdp": 1}
    assert manifest["traced_steps"] == 1
    assert manifest["traced_ms"] > 0
    # Warm-up, two timed rounds of one step, one traced step.
    assert len(manifest["losses"]) == 4
    assert config_from({**manifest["config"], "name": "toy"}) == tiny()


@pytest.mark.parametrize("missing", ["losses", "link", "versions", "traffic", "status"])
def test_the_schema_asks_for_what_matters(recorded: Recorded, missing: str) -> None:
    manifest = manifest_of(recorded)
    del manifest[missing]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(manifest, SCHEMA)


def test_flags_are_kept_as_asked_and_as_seen(recorded: Recorded) -> None:
    manifest = manifest_of(recorded)
    assert manifest["options"] == {
        "xla_gpu_enable_command_buffer": "",
        "xla_gpu_enable_latency_hiding_scheduler": "true",
    }
    assert manifest["options_seen"]["xla_gpu_enable_latency_hiding_scheduler"] == "true"


def test_the_manifest_names_no_host_user_or_path(recorded: Recorded) -> None:
    manifest = manifest_of(recorded)
    assert "xla_dump_to=… " in manifest["environment"]["XLA_FLAGS"]
    assert manifest["environment"]["NCCL_NVLS_ENABLE"] == "0"
    text = json.dumps(manifest, ensure_ascii=False)
    secrets = [recorded.root.name, "home-of-ada", "do-not-record"]
    host = socket.gethostname()
    # A host may be called `cpu` or `toy`, as what a manifest speaks of.
    if len(host) > 5 and not host.isalpha():
        secrets.append(host)
    for secret in secrets:
        assert not re.search(rf"\b{re.escape(secret)}\b", text), secret


def test_only_listed_variables_are_kept_and_paths_are_masked() -> None:
    given = {"XLA_FLAGS": "--xla_dump_to=/home/ada/x --a=1", "HOME": "/home/ada"}
    assert recorded_environment(given) == {"XLA_FLAGS": "--xla_dump_to=… --a=1"}


def test_flags_are_read_from_the_dump(tmp_path: Path) -> None:
    dump = tmp_path / "module_0001.jit_step.debug_options"
    dump.write_text('xla_a: true\nxla_b: "/etc/x"\nxla_c: 3\n', encoding="utf-8")
    (tmp_path / "module_0000.jit_other.debug_options").write_text("xla_d: 1\n", encoding="utf-8")
    assert flags_seen(tmp_path, {"xla_a", "xla_b", "xla_d"}) == {"xla_a": "true", "xla_b": "…"}


def test_the_tables_can_be_built_again(
    recorded: Recorded, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = recorded.folder.parent / "results.md"
    before = table.read_text(encoding="utf-8")
    table.unlink()
    said = say(capsys, monkeypatch, "report", recorded.folder.parent, "--reanalyze")
    assert said.status == 0
    assert said.out.strip() == before.strip()
    assert table.read_text(encoding="utf-8") == before
