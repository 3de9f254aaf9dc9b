"""Hold a report against limits, a baseline or its own history: metrics in, verdicts out."""
