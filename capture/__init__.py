"""A JAX training driver that runs the host-offload experiment, records it with nsys and reports it.

`python -m capture --help`. Only the worker process, which runs one arm, imports jax.
"""
