"""What the tests of the driver share: small configurations, the command in-process, a fake nsys."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from capture.arms import Arm
from capture.cli import main
from capture.config import Config, config_from, load_config
from capture.spec import Spec
from capture.toml_text import toml_text

ROOT = Path(__file__).parents[2]


def _quick_xla() -> str:
    """Flags that make XLA compile in a third of the time."""
    flags = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    try:
        known = metadata.version("jaxlib").startswith("0.10.")
    except metadata.PackageNotFoundError:
        known = False
    # XLA ends the process for a flag it does not know, and this one is meant to go away.
    return f"{flags} --xla_cpu_use_fusion_emitters=false" if known else flags


QUICK_XLA = _quick_xla()

FAKE_NSYS = """#!/usr/bin/env python3
import os, shutil, subprocess, sys
verb, *given = sys.argv[1:]
output = next(a.split("=", 1)[1] for a in given if a.startswith("--output="))
if verb == "profile":
    first = next(i for i, a in enumerate(given) if not a.startswith("--"))
    code = subprocess.call(given[first:])
    open(output + ".qdstrm", "w").write("stream")
    print("Importer error status: the importer could not be started")
    sys.exit(code or 1)
assert verb == "export", verb
assert open(given[-1]).read() == "report"
shutil.copy(os.environ["FAKE_EXPORT"], output)
"""
FAKE_IMPORTER = """#!/usr/bin/env python3
import os, sys
if not any(os.path.isdir(d + "/libdw") for d in os.environ["LD_LIBRARY_PATH"].split(":")):
    sys.exit("libdw.so.1: cannot open shared object file: No such file or directory")
assert open(sys.argv[sys.argv.index("-i") + 1]).read() == "stream"
open(sys.argv[sys.argv.index("-o") + 1], "w").write("report")
"""


CUDART = """
int cudaProfilerStart(void) { return 0; }
int cudaProfilerStop(void) { return STATUS_OF_STOP; }
"""


def install_nsys(folder: Path) -> Path:
    """An nsys laid out as inside Nsight Compute: it leaves a `.qdstrm` and has its importer near.

    The importer wants a library path with a folder `libdw` in it. The export is the file named
    by the variable FAKE_EXPORT.
    """
    nsys = folder / "nsight" / "target-linux-x64" / "nsys"
    importer = folder / "nsight" / "linux-desktop-glibc_2_11_3-x64" / "QdstrmImporter"
    for path, text in ((nsys, FAKE_NSYS), (importer, FAKE_IMPORTER)):
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    return nsys


def build_cudart(folder: Path, status_of_stop: int = 0) -> Path:
    """A CUDA runtime that has the two profiler calls and nothing else."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source = folder / "cudart.c"
    source.write_text(CUDART, encoding="utf-8")
    library = folder / "cudart" / "libcudart.so"
    library.parent.mkdir()
    define = f"-DSTATUS_OF_STOP={status_of_stop}"
    command = [compiler, "-shared", "-fPIC", define, "-o", str(library), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return library


def tiny(preset: str = "toy", **training: Any) -> Config:
    """Three layers of a preset at the smallest sizes, on one device."""
    config = load_config(preset)
    return replace(
        config,
        model=replace(config.model, layers=3, width=32, vocabulary=64),
        training=replace(
            config.training, **{"sequence": 16, "batch_per_device": 2, "fsdp": 1, **training}
        ),
        recording=replace(config.recording, warm_up=1, timed=1, traced=1),
    )


def write_toml(config: Config, path: Path) -> Path:
    """The configuration as a file that the command reads; it takes the file's name."""
    path.write_text(toml_text(config), encoding="utf-8")
    return path


def changed(config: Config, **sections: Mapping[str, Any]) -> Config:
    """The configuration with some fields of some sections replaced, checked anew."""
    values = config.to_dict()
    for section, fields in sections.items():
        values[section] = {**values[section], **fields}
    return config_from(values)


def spec_for(config: Config, arm: str, folder: Path, **more: Any) -> Spec:
    """The orders of a worker that writes into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    return Spec(config=config, arm=arm, folder=str(folder), **more)


def program_key(arm: Arm, *, updates: bool = True) -> tuple[Any, ...]:
    """What of an arm decides its program (with or without the optimizer's update).

    Arms alike in it differ only in XLA options and share one compilation in the tests.
    """
    key = (arm.keeps, arm.scan, arm.offloads, arm.barrier, arm.parameters_on_host)
    return (*key, arm.optimizer_on_host) if updates else key


@dataclass(frozen=True)
class Said:
    """What the command printed, and its exit status."""

    status: int
    out: str
    err: str


def say(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: Any
) -> Said:
    """`python -m capture ARGUMENTS` in this process; the arms themselves still get theirs."""
    monkeypatch.setattr(sys, "argv", ["capture", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    status = ended.value.code
    assert isinstance(status, int)
    return Said(status, printed.out, printed.err)
