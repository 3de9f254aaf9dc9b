"""A report of `nsys stats`: how much host transfer time ran behind compute.

    nsys stats --report-dir nsys/reports --report nsysoverlap_sum train.nsys-rep

nsys runs this in a Python of its own, which has none of our libraries: the numbers are those that
the `nsysoverlap` command writes as JSON. It is looked for on PATH, or in the variable NSYSOVERLAP.
"""

import json
import os
import subprocess

import nsysstats

COLUMNS = (
    ("Transfers", "n"),
    ("Total:mem_B", "bytes"),
    ("Time:dur_ns", "wall_ns"),
    ("Behind compute:dur_ns", "hidden_by_compute_ns"),
    ("Behind comm only:dur_ns", "hidden_by_comm_ns"),
    ("Exposed:dur_ns", "exposed_ns"),
    ("Compute waited:dur_ns", "blocking_ns"),
    ("Host waited:dur_ns", "host_blocking_ns"),
)
"""Headings, with the units of nsys, and keys of the JSON report."""


class NsysoverlapSum(nsysstats.StatsReport):
    """One row a device and direction."""

    display_name = "Host transfers behind compute (nsysoverlap)"
    usage = """{SCRIPT} -- {DISPLAY_NAME}

    No arguments.

    Output:
        Device : Device as the report lists it, and direction
        Transfers : Number of transfers that start in the steps, or in the trace without steps
        Total : Bytes of copies
        Time : Time during which at least one ran
        Behind compute, Behind comm only, Exposed : How that time splits
        Compute waited, Host waited : Part of the exposed time; missing where unknown

    The numbers are those of `nsysoverlap report`, which also says what to change.
"""

    def setup(self):
        """The table as a query of constants. Returns a message where there is none."""
        problem = super().setup()
        if problem is not None:
            return problem
        program = os.environ.get("NSYSOVERLAP", "nsysoverlap")
        try:
            done = subprocess.run(
                [program, "report", self.dbfile, "--format", "json"],
                capture_output=True,
                check=False,
            )
            report = json.loads(done.stdout.decode("utf-8"))
        except FileNotFoundError:
            return f"{program} is not found: set NSYSOVERLAP to its path."
        except ValueError:
            return done.stderr.decode("utf-8", "replace").strip() or "nsysoverlap wrote no report."
        rows = [
            [f"{device['gpu']['name'] or 'GPU'} {i}, {direction.upper()}"]
            + [device[direction][key] for _, key in COLUMNS]
            for i, device in enumerate(report["devices"])
            for direction in ("h2d", "d2h", "both")
            if device[direction]["n"]
        ]
        errors = [entry["message"] for entry in report["health"] if entry["severity"] == "error"]
        if errors:
            return f"Inconclusive: {errors[0]}"
        if not rows:
            return "{DBFILE} does not contain host transfers."
        headings = ["Device", *(heading for heading, _ in COLUMNS)]
        selected = ", ".join(f'column{i + 1} AS "{text}"' for i, text in enumerate(headings))
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
        self.query = f"SELECT {selected} FROM (VALUES {values})"
        return None


def _literal(value):
    if value is None:
        return "NULL"
    # nsys formats the text of a query once more.
    text = str(value).replace("'", "''").replace("{", "(").replace("}", ")")
    return text if isinstance(value, int) else f"'{text}'"


if __name__ == "__main__":
    NsysoverlapSum.Main()
