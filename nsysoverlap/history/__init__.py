"""Runs over time in one SQLite database: stored, listed, drawn, and used as a baseline."""
