"""What to say: reports, verdicts and comparisons as plain blocks, one function a section."""
