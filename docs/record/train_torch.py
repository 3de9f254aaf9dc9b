"""A training loop to record: the four lines marked `record` are what your own script needs.

`python train_torch.py [steps]`, or one process a GPU under torchrun or srun.
"""

import os
import sys

import torch

LAYERS, WIDTH, TOKENS = 8, 4096, 16384


class Block(torch.nn.Module):
    """One layer whose saved activations go to pinned host memory and come back."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return x + self.down(torch.nn.functional.gelu(self.up(x)))


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block() for _ in range(LAYERS))).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batch = torch.randn(TOKENS, WIDTH, device=device, dtype=torch.bfloat16)

    def step():
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(2):  # allocations and pinned memory are made in the first steps
        step()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()  # record
    for i in range(steps):
        torch.cuda.nvtx.range_push(f"step {i}")  # record
        step()
        torch.cuda.nvtx.range_pop()  # record
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()  # record


if __name__ == "__main__":
    main()
