"""Damaged exports, at random or guided by coverage: `make fuzz`."""
