"""From a classified trace to numbers, one device at a time."""
