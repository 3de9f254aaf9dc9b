"""Which steps a trace has, and what each launched."""
