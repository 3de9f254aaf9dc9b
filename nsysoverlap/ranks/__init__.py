"""Many traces: find them, measure them side by side here or on a cluster, add the reports."""
