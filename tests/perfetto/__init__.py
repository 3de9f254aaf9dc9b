"""Tests of the Perfetto export, read back by a reader that knows nothing of the writer."""
