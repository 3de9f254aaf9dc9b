"""Which tensors of which layers of a run are kept for the backward pass, and where."""

from __future__ import annotations

from dataclasses import dataclass

from .config import OffloadConfig
from .errors import RefusedError
from .models.attention import CONTEXT, STATISTICS


@dataclass(frozen=True)
class Kept:
    """Layers `first` to `first + n` - 1 of a model, as [offload] has them; they count from 0."""

    offload: OffloadConfig
    first: int
    n: int

    def on_host(self, layer: int) -> tuple[str, ...]:
        """Tensors of a layer that leave."""
        return self._placed(layer, "host")

    def on_device(self, layer: int) -> tuple[str, ...]:
        """Tensors of a layer that stay; attention's statistics wherever its output is kept.

        They are a fortieth of the output, and a copy of their own costs XLA's scheduler as much
        as a large one.
        """
        stays = self._placed(layer, "device")
        kept = CONTEXT in (*stays, *self.on_host(layer))
        return (*stays, STATISTICS) if kept else stays

    def names(self, layer: int) -> tuple[str, ...]:
        """All tensors of a layer that are not computed again."""
        return (*self.on_host(layer), *self.on_device(layer))

    def alike(self) -> Kept:
        """The same, for a scan. Raises `RefusedError` where its layers differ."""
        if any(self._of(layer) != self._of(0) for layer in range(self.n)):
            raise RefusedError(
                "A scan keeps the same tensors in all its layers, and [offload] names layers.",
                "Use an unrolled arm, or name all layers.",
            )
        return self

    def _of(self, layer: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.on_host(layer), self.on_device(layer)

    def _placed(self, layer: int, place: str) -> tuple[str, ...]:
        offload = self.offload
        return tuple(n for n in offload.names if offload.place(n, self.first + layer) == place)
