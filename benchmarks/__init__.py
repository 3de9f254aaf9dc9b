"""Speed and memory on large exports; `make bench` runs it from a checkout."""
