"""From files to reports: one trace, many traces, side by side or on a cluster."""
