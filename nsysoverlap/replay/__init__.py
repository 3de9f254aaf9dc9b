"""Replay of steps on a model of the GPU: what would happen, were something different."""
