"""What can go wrong, in words a person can act on.

Every error carries one line that says what failed, in which file and why, and a hint that
says what to do. Nothing here knows about exit codes: `nsysoverlap.cli` maps errors to them.
"""

from __future__ import annotations


class NsysOverlapError(Exception):
    """Base of all errors raised on purpose by this package.

    `message` is one line: what, which file, why. `hint` is one line: what to do next.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class TraceFileError(NsysOverlapError):
    """A trace that is missing, unreadable, damaged, or no Nsight Systems export at all."""


class ExportError(NsysOverlapError):
    """A `.nsys-rep` report that could not be turned into an SQLite export."""


class ConfigError(NsysOverlapError):
    """A configuration file or a rule in it that cannot be used."""


class UsageError(NsysOverlapError):
    """An option or argument whose value makes no sense for this trace."""


class InconclusiveError(NsysOverlapError):
    """A trace that can be read and does not tell what was asked."""
