"""What the GPU was doing: kernels by name, copies by their numbers, links by GPU."""
