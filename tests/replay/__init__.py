"""Tests of the replay model."""
