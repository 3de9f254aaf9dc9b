"""The GitHub action, the workflow and the GitLab job, run by a shell as the CI systems would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser import JUnitXml

from .gatekit import split_trace

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


@pytest.mark.parametrize(("limit", "code", "failures"), [(90, 0, 0), (91, 1, 1)])
def test_the_gitlab_job(runner: Runner, limit: int, code: int, failures: int) -> None:
    """Line by line, ending at the first that fails, as GitLab does."""
    (job,) = GITLAB.values()
    workspace = runner.workspace
    (workspace / "ranks").rename(workspace / "traces")
    (workspace / "nsysoverlap.toml").write_text(f"[gate]\nmin_hidden = {limit}\n")
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
    report = JUnitXml.fromfile(str(workspace / job["artifacts"]["reports"]["junit"]))
    assert (report.tests, report.failures) == (1, failures)


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
