"""Pictures of the trace itself: timelines, plots, Perfetto."""
