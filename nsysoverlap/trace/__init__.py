"""What an export holds: the one place that opens it, and the columns that come out."""
