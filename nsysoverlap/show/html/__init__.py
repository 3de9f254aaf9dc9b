"""Results as self-contained HTML pages: no network, no other files."""
