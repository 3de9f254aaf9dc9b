"""The process that runs one arm: `python -m capture.worker SPEC.json`.

It leaves `manifest.json` (with a rank in its name where there are several processes) also when
the device's memory is too small, which is a result and not a crash. Exit status: 0 a manifest
was written, 2 refused, 1 anything else.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from nsysoverlap.core.output import write_atomically

from .errors import RefusedError, is_out_of_memory
from .options import recorded_environment
from .spec import Spec, ranked, read_spec


def main(arguments: list[str]) -> int:
    """Run the spec and write its manifest."""
    spec = read_spec(Path(arguments[0]))
    try:
        manifest = run(spec)
    except RefusedError as error:
        manifest = {"status": "refused", "reason": str(error)}
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        print(f"out of memory: {str(error)[:2000]}", file=sys.stderr)
        manifest = {"status": "out-of-memory", "reason": str(error).splitlines()[0][:300]}
    write_manifest(spec, manifest)
    return 2 if manifest["status"] == "refused" else 0


def run(spec: Spec) -> dict[str, Any]:
    """What the mode of the spec asks for."""
    import jax

    if spec.coordinator == "auto":
        jax.distributed.initialize()
    elif spec.coordinator:
        jax.distributed.initialize(spec.coordinator, spec.processes, spec.rank)
    from . import batches, measure

    if spec.mode == "check":
        return measure.check(spec)
    if spec.mode == "preflight":
        from .preflight import preflight

        return preflight(spec)
    if spec.mode in ("compile", "rounds"):
        from . import several

        return several.compile_arms(spec) if spec.mode == "compile" else several.run_rounds(spec)
    if spec.mode == "find-batch":
        return batches.find_batch(spec)
    return measure.measure(spec)


def write_manifest(spec: Spec, manifest: dict[str, Any]) -> None:
    """Write the manifest, with what is known of every run added."""
    from .manifest import header

    complete = {**header(spec), **manifest, "environment": recorded_environment(os.environ)}
    path = Path(spec.folder, ranked("manifest.json", spec.rank, spec.processes))
    write_atomically(path, json.dumps(complete, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
