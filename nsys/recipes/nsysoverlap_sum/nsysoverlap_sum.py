"""A recipe of nsys: how much host transfer time ran behind compute, over the reports of all ranks.

    NSYS_RECIPE_PATH=nsys/recipes nsys recipe nsysoverlap_sum --input REPORTS

nsys runs this in whichever Python it finds, which need not have our libraries: the numbers are
those that the `nsysoverlap` command writes. It is looked for on PATH, or in the variable
NSYSOVERLAP; it exports reports with this nsys unless NSYS names another.
"""

import os
import subprocess
from datetime import datetime

from nsys_recipe.lib import exceptions, nsys_path, recipe
from nsys_recipe.lib.args import Option

INCONCLUSIVE = 3
"""Exit code of a report that is written, and must not be trusted."""


def export_beside(report):
    """The export that another recipe left beside a report, which saves making it; or the report."""
    export = os.path.splitext(report)[0] + ".sqlite"
    return export if os.path.exists(export) else report


class NsysoverlapSum(recipe.Recipe):
    """One report of all inputs: text on stdout, JSON and HTML in the output folder."""

    def run(self, context):
        """Report, then note the inputs. Raises the error of nsys where there is no report."""
        super().run(context)
        inputs = [os.path.abspath(path) for path in self._parsed_args.input]
        program = os.environ.get("NSYSOVERLAP", "nsysoverlap")
        command = [program, "report", *map(export_beside, inputs), "--format", "text"]
        for kind in ("json", "html"):
            name = "report." + kind
            command += ["--format", kind + "=" + self.add_output_file(name, kind.upper())]
        env = {"NSYS": nsys_path.find_installed_file("nsys"), **os.environ}
        try:
            code = subprocess.run(command, env=env, check=False).returncode
        except OSError as problem:
            raise exceptions.ValueError(
                program + " cannot be run: set NSYSOVERLAP to its path."
            ) from problem
        if code not in (0, INCONCLUSIVE):
            raise exceptions.ValueError("nsysoverlap wrote no report.")
        self._analysis_dict.update(
            {"EndTime": str(datetime.now()), "InputFiles": inputs, "Outputs": self._output_files}
        )
        self.create_analysis_file()

    @classmethod
    def get_argument_parser(cls):
        """Input and output as every recipe has them."""
        parser = super().get_argument_parser()
        parser.add_recipe_argument(Option.INPUT, required=True)
        parser.add_recipe_argument(Option.OUTPUT)
        parser.add_recipe_argument(Option.FORCE_OVERWRITE)
        return parser
