"""A training loop to record: what is marked `record` is what your own script needs.

`python train_jax.py [steps]`. XLA marks its modules itself: the step needs no range of its own.
"""

import ctypes
import functools
import sys

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

LAYERS, WIDTH, TOKENS = 8, 4096, 16384


OFFLOAD = jax.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[],
    names_which_can_be_offloaded=["hidden"],
    offload_src="device",
    offload_dst="pinned_host",
)


@functools.partial(jax.checkpoint, policy=OFFLOAD)
def layer(x, weights):
    up, down = weights
    return x + checkpoint_name(jax.nn.gelu(x @ up), "hidden") @ down


def loss(params, x):
    for weights in params:
        x = layer(x, weights)
    return jnp.mean(jnp.square(x.astype(jnp.float32)))


@functools.partial(jax.jit, donate_argnums=0)
def train_step(params, x):
    grads = jax.grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - 1e-4 * g, params, grads)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    keys = jax.random.split(jax.random.key(0), 2 * LAYERS + 1)
    make = lambda key, shape: 0.02 * jax.random.normal(key, shape, jnp.bfloat16)  # noqa: E731
    params = [
        (make(keys[2 * i], (WIDTH, 4 * WIDTH)), make(keys[2 * i + 1], (4 * WIDTH, WIDTH)))
        for i in range(LAYERS)
    ]
    x = make(keys[-1], (TOKENS, WIDTH))
    for _ in range(3):  # compiles, and makes the pinned memory
        params = train_step(params, x)
    jax.block_until_ready(params)
    driver = ctypes.CDLL("libcuda.so.1")  # record: JAX has no call for it
    driver.cuProfilerStart()  # record
    for _ in range(steps):
        params = train_step(params, x)
    jax.block_until_ready(params)
    driver.cuProfilerStop()  # record


if __name__ == "__main__":
    main()
