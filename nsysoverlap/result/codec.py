"""`OverlapReport` to the plain data of the JSON report and back.

The shape is a contract, described by `report.schema.json`. Reading trusts nothing: whatever
is missing, of the wrong type, or does not add up is a `ConfigError` that names the place.
"""

from __future__ import annotations

from .json_read import report_from_dict
from .json_write import report_to_dict

__all__ = ["report_from_dict", "report_to_dict"]
