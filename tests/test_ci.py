"""The GitHub action, the workflow and the GitLab job, run by a shell as the CI systems would."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import xmlschema
import yaml
from junitparser import JUnitXml

from nsysoverlap.core.formatting import clean_text
from nsysoverlap.show.github import workflow_command

from .gatekit import split_trace
from .traces import h200

REPO = Path(__file__).parents[1]
DOCS = REPO / "docs"
ACTION = yaml.safe_load((REPO / "action.yml").read_text())
WORKFLOW = yaml.safe_load((DOCS / "ci" / "github-workflow.yml").read_text())
GITLAB = yaml.safe_load((DOCS / "ci" / "gitlab-ci.yml").read_text())
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def shell(text: str, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a step the way GitHub does: bash -eo pipefail, from a file."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )


def filled(text: str, values: dict[str, str]) -> str:
    """`${{ inputs.x }}` and the like replaced; an unknown one is an error."""
    return _EXPRESSION.sub(lambda match: values[match[1]], text)


class Runner:
    """Runs composite actions in a workspace, as GitHub's runner does."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        self.workspace = workspace
        self.outputs = folder / "outputs"
        self.summary = folder / "summary.md"
        self.env = {
            "RUNNER_TEMP": str(folder),
            "GITHUB_ACTION_PATH": str(REPO),
            "GITHUB_OUTPUT": str(self.outputs),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }

    def use(self, action: dict[str, Any], given: dict[str, str]) -> tuple[int, str]:
        """Exit code and stdout of an action's steps, up to the first that fails."""
        assert set(given) <= set(action["inputs"])
        values = {}
        for name, spec in action["inputs"].items():
            assert name in given or not spec["required"]
            values[f"inputs.{name}"] = given.get(name, spec.get("default", ""))
        out = ""
        for step in action["runs"]["steps"]:
            if step["name"].startswith("Install"):
                self.install()
                continue
            env = {name: filled(text, values) for name, text in step.get("env", {}).items()}
            assert not _EXPRESSION.search(step["run"]), "inputs must reach the shell as variables"
            done = shell(step["run"], self.workspace, {**self.env, **env})
            out += done.stdout
            if done.returncode:
                return done.returncode, out
        return 0, out

    def install(self) -> None:
        """What the install step leaves behind, with the package of this checkout."""
        command = f'PYTHONPATH="{REPO}" exec "{sys.executable}" -m nsysoverlap "$@"'
        script(Path(self.env["RUNNER_TEMP"]) / "nsysoverlap" / "bin" / "nsysoverlap", command)

    @property
    def verdict(self) -> str:
        return self.outputs.read_text().strip()


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    workspace = tmp_path / "work space"
    workspace.mkdir()
    split_trace(workspace / "half.sqlite", d2h=(5_000, 10_000))
    (workspace / "ranks").mkdir()
    for i in range(2):
        split_trace(workspace / "ranks" / f"rank{i}.sqlite", d2h=(9_000, 10_000))
    (workspace / "broken.sqlite").write_text("broken")
    return Runner(tmp_path, workspace)


@pytest.mark.parametrize(
    ("traces", "options", "code", "verdict"),
    [
        ("half.sqlite", "--min-hidden 50", 0, "pass"),
        ("half.sqlite", "--min-hidden 51", 1, "fail"),
        ("half.sqlite", "", 2, "unusable"),
        ("half.sqlite\nbroken.sqlite\n", "--min-hidden 50", 3, "inconclusive"),
        ("\n  \nranks\n\n", "--min-hidden 90", 0, "pass"),
        ("ranks/rank*.sqlite", "--require 'both.hidden@worst-rank >= 90%'", 0, "pass"),
        ("half.sqlite", '--require "both.hidden >= 51%"\n--min-hidden\n1', 1, "fail"),
        ("half.sqlite", "--min-hidden $(touch pwned)", 2, "unusable"),
        ("half.sqlite; touch pwned", "--min-hidden 1", 2, "unusable"),
    ],
)
def test_the_action(runner: Runner, traces: str, options: str, code: int, verdict: str) -> None:
    assert runner.use(ACTION, {"traces": traces, "options": options})[0] == code
    assert runner.verdict == f"verdict={verdict}"
    assert not (runner.workspace / "pwned").exists(), "an input was evaluated"


def test_the_action_annotates_and_writes_a_summary(runner: Runner) -> None:
    _, out = runner.use(ACTION, {"traces": "half.sqlite", "options": "--min-hidden 60"})
    assert out.startswith("::error title=nsysoverlap gate::Failed: both.hidden is 50.0 %25")
    assert runner.summary.read_text().startswith("**Failed: ")


def test_the_action_s_output_is_declared() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert list(ACTION["outputs"]) == ["verdict"]
    ids = {step.get("id") for step in ACTION["runs"]["steps"]}
    (expression,) = _EXPRESSION.findall(ACTION["outputs"]["verdict"]["value"])
    assert expression.split(".")[1] in ids


def test_the_action_installs_from_its_own_checkout(tmp_path: Path) -> None:
    """The install step as it stands, with a pip that only notes what it is asked for."""
    (step,) = (s for s in ACTION["runs"]["steps"] if s["name"].startswith("Install"))
    asked = tmp_path / "asked"
    # The environment is made by a stand-in, for a real one would be filled from the network.
    fake = script(tmp_path / "bin" / "python", f'printf "%s\\n" "$*" >> "{asked}"')
    maker = f'mkdir -p "$3/bin" && cp "{fake}" "$3/bin/python"'
    script(tmp_path / "bin" / "python3", f'[ "$1 $2" = "-m venv" ] && {maker}')
    env = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path / "temp dir"),
        "GITHUB_ACTION_PATH": str(REPO),
    }
    done = shell(step["run"], tmp_path, env)
    assert done.returncode == 0, done.stderr
    assert asked.read_text() == f"-m pip install --quiet {REPO}\n"
    assert (REPO / "pyproject.toml").is_file()


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_shell_of_the_action_is_clean() -> None:
    for step in ACTION["runs"]["steps"]:
        done = subprocess.run(
            ["shellcheck", "--shell=bash", "-"],
            input=step["run"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def test_the_example_workflow_gates_the_committed_trace(tmp_path: Path) -> None:
    runner = Runner(tmp_path, REPO)
    (job,) = WORKFLOW["jobs"].values()
    values: dict[str, str] = {}
    ran = []
    for step in job["steps"]:
        if step.get("uses") == "./":
            code, _ = runner.use(ACTION, step["with"])
            assert code == 0
            values[f"steps.{step['id']}.outputs.verdict"] = runner.verdict.partition("=")[2]
        elif "run" in step:
            done = shell(filled(step["run"], values), REPO, runner.env)
            ran.append((done.returncode, done.stdout))
        else:
            assert step["uses"].startswith("actions/checkout@"), "only a shell can be tried here"
    assert ran == [(0, "The verdict was pass.\n")]


SAMPLES: dict[str, tuple[int, dict[str, str]]] = {
    "pass": (0, {"min_hidden": "90"}),
    "fail": (1, {"min_hidden": "91"}),
    "lost": (3, {"min_hidden": "1"}),
    "opaque": (3, {"min_hidden": "1"}),
    "half broken": (3, {"min_hidden": "1"}),
    "no transfers": (1, {"min_hidden": "1"}),
    "all broken": (2, {"min_hidden": "1"}),
    "no folder": (2, {"min_hidden": "1"}),
}
"""What lies in `traces/`, with the exit code that is right."""


def documented() -> tuple[dict[str, Any], dict[str, Any], str]:
    """What docs/ci.md shows and nothing else: GitHub's step, GitLab's job, the configuration."""
    text = (DOCS / "ci.md").read_text(encoding="utf-8")
    step, job = (yaml.safe_load(b) for b in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    (config,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    return step[0], next(iter(job.values())), config


def prepare(workspace: Path, sample: str) -> int:
    """The repository that docs/ci.md speaks of, with other limits; the exit code to expect."""
    code, limits = SAMPLES[sample]
    _, _, config = documented()
    config = re.sub(r"min_hidden = \d+", f"min_hidden = {limits['min_hidden']}", config)
    config = config.replace('"8GiB"', "true").replace("max_exposed_ms = 60", "max_exposed_ms = 9")
    (workspace / "nsysoverlap.toml").write_text(config)
    traces = workspace / "traces"
    if sample == "no folder":
        return code
    (workspace / "ranks").rename(traces)
    if "broken" in sample:
        (traces / "rank1.sqlite").write_text("broken")
    if sample == "all broken":
        (traces / "rank0.sqlite").write_text("broken")
    if sample == "lost":
        shutil.copy(h200("jax_fsdp2_events_lost"), traces / "rank1.sqlite")
    if sample == "opaque":
        shutil.copy(h200("micro_graph_graph"), traces / "rank1.sqlite")
    if sample == "no transfers":
        split_trace(traces / "rank1.sqlite")
    return code


ANNOTATION = re.compile(
    r"::(notice|warning|error) title=[^:,%\r\n]*(%(25|0D|0A|3A|2C)[^:,%]*)*::.+"
)
"""A workflow command as the runner reads it: properties and data escaped, one line."""


ACTIONS_CORE = os.environ.get("ACTIONS_CORE")


@pytest.mark.skipif(ACTIONS_CORE is None, reason="ACTIONS_CORE names no folder of @actions/core")
def test_annotations_are_those_of_github_s_own_library() -> None:
    """GitHub publishes no reader of workflow commands but its runner; this library writes them."""
    letters = random.Random(7)
    cases = [
        (level, *("".join(letters.choices('a b:,%\r\n=;0D25é零"&<>', k=k)) for k in (9, 40)))
        for level in ("notice", "warning", "error") * 300
    ]
    ours = "".join(f"{workflow_command(*case)}\n" for case in cases)
    # What the terminal would obey goes first, from every output.
    given = json.dumps(
        [(level, clean_text(title), clean_text(text)) for level, title, text in cases]
    )
    script = f"""import * as core from "{Path(ACTIONS_CORE or "").resolve()}/lib/core.js";
    for (const [level, title, text] of {given}) core[level](text, {{title}});"""
    command = ["node", "--input-type=module", "-"]
    theirs = subprocess.run(command, input=script, capture_output=True, text=True, check=True)
    assert ours == theirs.stdout


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_github_job_from_the_documentation_alone(runner: Runner, sample: str) -> None:
    step, _, _ = documented()
    code = prepare(runner.workspace, sample)
    given = {**step["with"], "options": f"{step['with']['options']} --format junit=gate.xml"}
    found, out = runner.use(ACTION, given)
    assert found == code
    assert runner.verdict == f"verdict={['pass', 'fail', 'unusable', 'inconclusive'][code]}"
    lines = out.splitlines()
    assert [line for line in lines if not ANNOTATION.fullmatch(line)] == []
    assert lines[0].startswith("::notice" if code == 0 else "::error")
    word = {0: "Passed", 1: "Failed"}.get(code, "Inconclusive")
    assert runner.summary.read_text().startswith(f"**{word}: ")
    # Without transfers there is nothing that could be exposed.
    check_junit(runner.workspace / "gate.xml", code, met=sample != "no transfers")


def check_junit(path: Path, code: int, met: bool = True) -> None:
    """The report fits the schema that CI systems agree on, and is as green as the exit code."""
    xmlschema.XMLSchema(str(REPO / "tests" / "junit.xsd")).validate(str(path))
    report = JUnitXml.fromfile(str(path))
    names = [case.name for suite in report for case in suite]
    scope = names[2].removeprefix("both.exposed_ms@").removesuffix(" <= limit")
    assert scope in ("worst-device", "step-median")
    assert names == [
        *("both.n@worst-rank >= limit", "both.hidden >= limit"),
        *(f"both.exposed_ms@{scope} <= limit", "the traces"),
    ]
    assert (report.failures, report.errors > 0) == (int(code == 1), code > 1 or not met)


@pytest.mark.parametrize("sample", ["pass", "fail", "half broken", "no folder"])
def test_a_gitlab_job_from_the_documentation_alone(runner: Runner, sample: str) -> None:
    """Line by line, ending at the first that fails, as GitLab does."""
    _, job, _ = documented()
    workspace = runner.workspace
    code = prepare(workspace, sample)
    asked = workspace / "asked"
    tools = workspace / "tools"
    script(tools / "pip", f'printf "%s\\n" "$*" >> "{asked}"')
    script(
        tools / "nsysoverlap",
        f'PYTHONPATH="{REPO}" exec "{sys.executable}" -m nsysoverlap "$@"',
    )
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}
    codes = []
    for line in job["script"]:
        codes.append(shell(line, workspace, env).returncode)
        if codes[-1]:
            break
    assert codes[-1] == code
    assert len(codes) == len(job["script"])
    assert asked.read_text().startswith("install https://github.com/YOUR/nsysoverlap/archive/")
    check_junit(workspace / job["artifacts"]["reports"]["junit"], code)


@pytest.mark.parametrize(
    ("schema", "path", "extra"),
    [
        ("vendor.github-actions", "action.yml", []),
        ("vendor.github-workflows", "docs/ci/github-workflow.yml", []),
        ("vendor.gitlab-ci", "docs/ci/gitlab-ci.yml", ["--data-transform", "gitlab-ci"]),
    ],
)
def test_files_fit_the_schema_that_the_system_publishes(
    schema: str, path: str, extra: list[str], tmp_path: Path
) -> None:
    def checks(file: Path) -> bool:
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *extra]
        return (
            subprocess.run([*command, str(file)], capture_output=True, check=False).returncode == 0
        )

    assert checks(REPO / path)
    wrong = tmp_path / Path(path).name
    wrong.write_text((REPO / path).read_text().replace("runs", "ran").replace("script:", "do:"))
    assert not checks(wrong)


def test_the_documentation_shows_what_is_tested() -> None:
    text = (DOCS / "ci.md").read_text(encoding="utf-8")
    assert (DOCS / "ci" / "gitlab-ci.yml").read_text() in text
    shown = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    (step,) = (block[0] for block in shown if isinstance(block, list))
    assert set(step["with"]) <= set(ACTION["inputs"])
    # Nothing of that name is published: whoever pastes it would get nothing, or someone else's.
    sources = [step["uses"], *(line for line in GITLAB["transfer-overlap"]["script"][:1])]
    assert ["YOUR/nsysoverlap" in source for source in sources] == [True, True]
    for linked in re.findall(r"\]\((ci/[\w.-]+)\)", text):
        assert (DOCS / linked).is_file()
