"""Builds real SQLite exports from drawings; `tests.tracebuilder` is the door."""
