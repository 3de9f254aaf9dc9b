"""Words and numbers that know nothing of traces."""
