"""Reports, verdicts and comparisons as text, Markdown, HTML, JSON and JUnit."""
