"""The fastest placement of tensors for a memory limit, by a model of the step.

The model knows what computing each tensor again takes, what it weighs, and what the link hides
beside the forward and the backward pass of a layer. The search is exact: it returns what trying
every placement would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .config import layer_text

FLOOR = 0.68
"""Share of the step below which waiting makes the work no faster."""
Counts = tuple[tuple[int, int], ...]
"""For each tensor of a model: in how many first layers it leaves, in how many last it stays."""


@dataclass(frozen=True)
class Tensor:
    """One named tensor of a layer: ms to compute it again, and GB (10^9) of one layer."""

    name: str
    again_ms: float
    gb: float

    @property
    def density(self) -> float:
        """Milliseconds won per GB kept."""
        return self.again_ms / self.gb


@dataclass(frozen=True)
class StepModel:
    """Full rematerialisation of `layers` equal layers, and what keeping tensors changes.

    `remat_ms` and `remat_gib` are its step and peak; `forward_ms` and `backward_ms` those of a
    layer, the latter with everything computed again. `clock` is the power of the clock law.
    """

    layers: int
    remat_ms: float
    remat_gib: float
    forward_ms: float
    backward_ms: float
    d2h_gbps: float
    h2d_gbps: float
    ahead: int
    tensors: tuple[Tensor, ...]
    clock: float = 0.37

    def work_ms(self, counts: Counts) -> float:
        """The step if no copy were waited for."""
        kept = zip(self.tensors, counts, strict=True)
        return self.remat_ms - sum(t.again_ms * (h + d) for t, (h, d) in kept)

    def peak_gib(self, counts: Counts) -> float:
        """Tensors on the device on top of rematerialisation; the last layer's never leave."""
        kept = zip(self.tensors, counts, strict=True)
        gb = sum(t.gb * (d + (h == self.layers)) for t, (h, d) in kept)
        return self.remat_gib + gb * 1e9 / (1 << 30)

    def step_ms(self, counts: Counts) -> float:
        """The predicted step."""
        return with_clock(self.work_ms(counts), self.exposed_ms(counts), self.clock)

    def exposed_ms(self, counts: Counts) -> float:
        """What the step waits for copies.

        A layer's tensors are on the host when the next layer is over, and back when their own
        backward pass begins; a reload may start `ahead` layers before that.
        """
        gb = [
            sum(t.gb for t, (h, _) in zip(self.tensors, counts, strict=True) if layer < h)
            for layer in range(self.layers)
        ]
        gb[-1] = 0.0
        return self._away(gb) + self._back(gb, counts)

    def _away(self, gb: list[float]) -> float:
        now = free = due = waited = 0.0
        for layer in range(self.layers):
            end = now + self.forward_ms
            waited += max(0.0, due - end)
            # What this layer sends is complete when it is over at the latest.
            free = max(free, now) + gb[layer] * 1e3 / self.d2h_gbps
            now, due = max(end, due), free
        return waited + max(0.0, due - now)

    def _back(self, gb: list[float], counts: Counts) -> float:
        now = free = waited = 0.0
        ready = [0.0] * self.layers

        def reload(layer: int) -> None:
            nonlocal free
            if layer >= 0 and gb[layer]:
                free = ready[layer] = max(free, now) + gb[layer] * 1e3 / self.h2d_gbps

        for layer in reversed(range(max(0, self.layers - self.ahead), self.layers)):
            reload(layer)
        for layer in reversed(range(self.layers)):
            reload(layer - self.ahead)
            waited += max(0.0, ready[layer] - now)
            now = max(now, ready[layer]) + self.backward_ms - self._spared(counts, layer)
        return waited

    def _spared(self, counts: Counts, layer: int) -> float:
        return sum(
            t.again_ms
            for t, (h, d) in zip(self.tensors, counts, strict=True)
            if layer < h or layer >= self.layers - d
        )


def with_clock(work_ms: float, exposed_ms: float, power: float) -> float:
    """The step of so much work and waiting: a GPU at its power limit runs faster while it waits.

    Work takes `u ** power` of its time, where u is the share of the step that is not waited, and
    not below `FLOOR`.
    """
    step = work_ms + exposed_ms
    for _ in range(20 if exposed_ms else 0):
        share = max(FLOOR, 1 - exposed_ms / step)
        step = work_ms * share**power + exposed_ms
    return step


def best(
    model: StepModel,
    limit_gib: float,
    tolerance_ms: float = 0.0,
    most: int = 1 << 30,
    *,
    alike: bool = False,
) -> Counts:
    """The placement of the smallest predicted step whose peak is within the limit.

    With `alike` a tensor is in one place in all layers, which is what MaxText can say. Exact within
    `tolerance_ms`, unless more than `most` placements had to be looked at. Ties go to the one that
    moves least. If not even full rematerialisation fits, that is the answer.
    """
    search = _Search(model, limit_gib, tolerance_ms, most)
    if alike:
        search.options = [(model.layers, 0), (0, model.layers), (0, 0)]
    search.climb()
    search.descend(0, [(0, 0)] * len(model.tensors))
    return search.counts


class _Search:
    """Branch and bound over the tensors, those that win most per byte first."""

    def __init__(self, model: StepModel, limit_gib: float, tolerance_ms: float, most: int) -> None:
        self.model, self.limit_gib, self.tolerance_ms = model, limit_gib, tolerance_ms
        self.left = most
        self.order = sorted(range(len(model.tensors)), key=lambda i: -model.tensors[i].density)
        self.options = list(_options(model.layers))
        self.counts: Counts = ((0, 0),) * len(model.tensors)
        self.score = (model.step_ms(self.counts), 0.0)

    def climb(self) -> None:
        """Change one tensor at a time while that helps: a first answer to measure others by."""
        before = None
        while before != self.score:
            before = self.score
            for place in self.order:
                for option in self.options:
                    counts = (*self.counts[:place], option, *self.counts[place + 1 :])
                    if self.model.peak_gib(counts) <= self.limit_gib:
                        self._judge(counts)

    def descend(self, depth: int, chosen: list[tuple[int, int]]) -> None:
        """Try every way to place the tensors from `depth` on that may still be better."""
        self.left -= 1
        if depth == len(self.order):
            self._judge(tuple(chosen))
            return
        place = self.order[depth]
        for option in self.options[self._first_option(depth, chosen) :]:
            chosen[place] = option
            counts = tuple(chosen)
            fits = self.model.peak_gib(counts) <= self.limit_gib and self.left > 0
            if fits and self._bound(depth + 1, counts) < self.score[0] - self.tolerance_ms:
                self.descend(depth + 1, chosen)
        chosen[place] = (0, 0)

    def _first_option(self, depth: int, chosen: list[tuple[int, int]]) -> int:
        """Of two tensors alike the second need not be tried with what the first was tried with."""
        if depth:
            this, last = self.order[depth], self.order[depth - 1]
            one, two = self.model.tensors[this], self.model.tensors[last]
            if (one.again_ms, one.gb) == (two.again_ms, two.gb):
                return self.options.index(chosen[last])
        return 0

    def _judge(self, counts: Counts) -> None:
        gb = sum(t.gb * h for t, (h, _) in zip(self.model.tensors, counts, strict=True))
        score = (self.model.step_ms(counts), gb)
        if score < self.score:
            self.counts, self.score = counts, score

    def _bound(self, depth: int, counts: Counts) -> float:
        """No step below this can come of placing the tensors from `depth` on.

        They fill, in fractions, what the device and the link still hold; what the link cannot
        hide costs its time, of which the clock gives back at most a part.
        """
        model = self.model
        sent = sum(t.gb * h for t, (h, _) in zip(model.tensors, counts, strict=True))
        # The last layer's tensors do not leave.
        link = model.d2h_gbps * model.forward_ms * model.layers / 1e3
        link += sum(t.gb for t in model.tensors)
        room = (self.limit_gib - model.peak_gib(counts)) * (1 << 30) / 1e9
        room += max(0.0, link - sent)
        price = (1 - (1 - FLOOR**model.clock) / (1 - FLOOR)) * 1e3 / model.d2h_gbps
        won = 0.0
        for place in self.order[depth:]:
            tensor = model.tensors[place]
            fits = min(room, tensor.gb * model.layers)
            room -= fits
            won += fits * tensor.density
            won += (tensor.gb * model.layers - fits) * max(0.0, tensor.density - price)
        over_ms = max(0.0, sent - link) * 1e3 / model.d2h_gbps
        return with_clock(model.work_ms(counts), over_ms, model.clock) - won


def _options(layers: int) -> Iterator[tuple[int, int]]:
    """Ways to place one tensor, those that keep most first."""
    for kept in range(layers, -1, -1):
        for away in range(kept, -1, -1):
            yield away, kept - away


def offload_fields(model: StepModel, counts: Counts) -> dict[str, Any]:
    """[offload] of a placement: names, and the layers in which each leaves or stays."""
    host: dict[str, str] = {}
    device: dict[str, str] = {}
    for tensor, (away, stays) in zip(model.tensors, counts, strict=True):
        if away:
            host[tensor.name] = layer_text(range(away))
        if stays:
            device[tensor.name] = layer_text(range(model.layers - stays, model.layers))
    names = [t.name for t in model.tensors if t.name in host or t.name in device]
    return {"names": names, "host": host, "device": device}


def describe(fields: Mapping[str, Any]) -> str:
    """A placement in words."""
    parts = [f"{name} of layers {layers} leaves" for name, layers in fields["host"].items()]
    parts += [f"{name} of layers {layers} stays" for name, layers in fields["device"].items()]
    return "; ".join(parts) or "everything computed again"
