"""Reports held against limits, against each other, and against earlier runs."""
