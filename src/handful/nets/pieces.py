"""Training a network on every core, to the bits of one.

Threads within an operation change last bits, since the gradient of a weight is then summed in another order. So a batch is cut
into pieces whose number depends on the batch alone; each goes through the network on a thread of its own, and as many are at
work at a time as there are cores. Only batch norm looks at other images: there the pieces meet, and their sums are added in the
order of the pieces, as are the gradients of the weights.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

# Fewer images than this in a piece and the threads take turns at Python instead of working.
LEAST = 16
MOST = 8

_PLACE = threading.local()


@dataclass(frozen=True)
class _Crew:
    """The threads of one training, one for each piece, and how many of them may work at a time."""

    pool: ThreadPoolExecutor
    turns: threading.Semaphore


_CREW: ContextVar[_Crew | None] = ContextVar("handful-pieces", default=None)


@contextmanager
def in_pieces(net: nn.Module, cores: int) -> Iterator[None]:
    """Within the block a network that treats each image alone, but for batch norm, is trained in pieces on so many cores."""
    if not getattr(net, "apart", False):
        yield
        return
    with ThreadPoolExecutor(MOST, "piece", initializer=torch.set_num_threads, initargs=(1,)) as pool:
        before = _CREW.set(_Crew(pool, threading.Semaphore(cores)))
        # Partial, not a closure: a copy of the network that a method makes must call itself.
        for way in ("forward", "maps"):
            net.__dict__[way] = functools.partial(_through, net, way)
        try:
            yield
        finally:
            for way in ("forward", "maps"):
                net.__dict__.pop(way, None)
            _CREW.reset(before)


def count(images: int) -> int:
    """The pieces of a batch: of its size alone, never of the machine."""
    return max(1, min(MOST, images // LEAST))


def _through(net: nn.Module, way: str, x: Tensor) -> Tensor:
    """A network's ``forward`` or ``maps``, in pieces where that is the same."""
    plain = functools.partial(getattr(type(net), way), net)
    crew = _CREW.get()
    if crew is None or hasattr(_PLACE, "piece") or count(len(x)) == 1 or not _separable(net, x):
        return plain(x)
    learned = [p for p in net.parameters() if p.requires_grad]
    return _Pieces.apply(x, plain, crew, learned, *learned) if learned else plain(x)


# What computes each image by itself, or meets the other pieces.
_ALONE = (
    nn.Conv2d,
    nn.ReLU,
    nn.LeakyReLU,
    nn.MaxPool2d,
    nn.AvgPool2d,
    nn.Identity,
    nn.GroupNorm,
)


def _separable(net: nn.Module, x: Tensor) -> bool:
    """Whether pieces give what the whole batch gives: no layer of a method's own, no hooks, no gradients of gradients."""
    if not (net.training and torch.is_grad_enabled()) or x.requires_grad or x.dtype != torch.float32:
        return False
    if x.device.type != "cpu" or torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling():
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None:  # vmap, grad and functional calls under them
        return False
    for layer in net.modules():
        if layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks:
            return False
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            if type(layer) is not BatchNorm2d or not layer.usual:
                return False
        elif not any(layer.children()) and type(layer) not in _ALONE:
            return False
    return all(p.is_leaf for p in net.parameters())


class _Pieces(torch.autograd.Function):
    """A network over a batch, forwards and backwards in pieces."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, net: Callable[[Tensor], Tensor], crew: _Crew, learned: list[Tensor], *_: Tensor
    ) -> Tensor:
        parts = x.tensor_split(count(len(x)))

        def one(piece: int) -> Tensor:
            with torch.enable_grad():
                # Convolutions are faster with channels last, forwards and backwards.
                return net(parts[piece].contiguous(memory_format=torch.channels_last))

        ctx.out = _together(crew, len(parts), one)
        ctx.crew, ctx.learned = crew, learned
        return torch.cat([y.detach() for y in ctx.out]).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        slopes = slope.tensor_split(len(ctx.out))

        def one(piece: int) -> tuple[Tensor | None, ...]:
            return torch.autograd.grad(ctx.out[piece], ctx.learned, slopes[piece], allow_unused=True)

        found = _together(ctx.crew, len(slopes), one)
        ctx.out = None
        return (None, None, None, None, *(_sum(list(gradients)) for gradients in zip(*found, strict=True)))


def _sum(parts: list[Tensor | None]) -> Tensor | None:
    """Added in the order of the pieces; nothing for a weight that is not used."""
    used = [part for part in parts if part is not None]
    return functools.reduce(torch.add, used).contiguous() if used else None


class _Meeting:
    """Where the pieces of a batch wait for one another and add up what they bring, in the order of the pieces."""

    def __init__(self, pieces: int, turns: threading.Semaphore):
        self.turns, self.brought = turns, [()] * pieces
        self.barrier = threading.Barrier(pieces, self._combine)
        self.combine: Callable[[list[Any]], Any]

    def _combine(self) -> None:
        self.result = self.combine(self.brought)

    def bring(self, piece: int, values: Any, combine: Callable[[list[Any]], Any]) -> Any:
        self.brought[piece] = values
        self.combine = combine
        self.turns.release()  # another piece works while this one waits
        try:
            self.barrier.wait()
            return self.result
        finally:
            self.turns.acquire()


def _together(crew: _Crew, pieces: int, work: Callable[[int], Any]) -> list[Any]:
    """Work of all pieces, as many at a time as there are cores; the first error ends all of them."""
    meeting = _Meeting(pieces, crew.turns)

    def one(piece: int) -> Any:
        with crew.turns:
            _PLACE.piece = (meeting, piece)
            try:
                return work(piece)
            except BaseException:
                meeting.barrier.abort()
                raise
            finally:
                del _PLACE.piece

    waiting = [crew.pool.submit(one, piece) for piece in range(pieces)]
    errors = [e for e in (w.exception() for w in waiting) if e is not None]
    if errors:
        raise next((e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0])
    return [w.result() for w in waiting]


class BatchNorm2d(nn.BatchNorm2d):
    """torch's, which in a batch that is trained in pieces takes its statistics over all of them."""

    @property
    def usual(self) -> bool:
        return bool(self.affine and self.track_running_stats and self.momentum is not None)

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(_PLACE, "piece") or not self.training:
            return super().forward(x)
        return _SharedNorm.apply(x, self.weight, self.bias, self, *_PLACE.piece)


class _SharedNorm(torch.autograd.Function):
    """Batch norm of one piece by the statistics of all."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, layer: nn.BatchNorm2d, meeting: _Meeting, piece: int
    ) -> Tensor:
        mean, variance = torch.batch_norm_update_stats(x, None, None, 0.0)
        places = x.numel() // x.shape[1]
        mean, variance, total = meeting.bring(piece, (places, mean, variance), functools.partial(_statistics, layer))
        ctx.save_for_backward(x, weight, mean, variance)
        ctx.total, ctx.eps = total, layer.eps
        return torch.batch_norm(x, weight, bias, mean, variance, False, 0.0, layer.eps, False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, variance = ctx.saved_tensors
        meeting, piece = _PLACE.piece
        inverse = (variance + ctx.eps).rsqrt()
        _, by_weight, by_bias = torch.ops.aten.native_batch_norm_backward(
            slope, x, weight, None, None, mean, inverse, True, ctx.eps, [False, True, True]
        )
        all_weight, all_bias = meeting.bring(piece, (by_weight, by_bias), _added)
        # weight / deviation * (slope - mean of slope - normalised x * mean of (slope * normalised x)); the last two terms
        # are an affine map of x, one pass of batch norm.
        scale = weight * inverse
        share = -scale / ctx.total
        by_x = torch.batch_norm(x, share * all_weight, share * all_bias, mean, variance, False, 0.0, ctx.eps, False)
        return by_x.addcmul_(slope, scale.view(1, -1, 1, 1)), by_weight, by_bias, None, None, None


def _statistics(layer: nn.BatchNorm2d, parts: list[tuple[int, Tensor, Tensor]]) -> tuple[Tensor, Tensor, int]:
    """Mean and variance over all pieces, which the layer's running ones follow."""
    total = sum(places for places, _, _ in parts)
    mean = torch.stack([m.double() * n for n, m, _ in parts]).sum(0) / total
    variance = torch.stack([(v.double() + (m - mean) ** 2) * n for n, m, v in parts]).sum(0) / total
    with torch.no_grad():
        assert layer.running_mean is not None and layer.running_var is not None and layer.momentum is not None
        assert layer.num_batches_tracked is not None
        layer.running_mean.lerp_(mean.float(), layer.momentum)
        layer.running_var.lerp_((variance * total / max(1, total - 1)).float(), layer.momentum)
        layer.num_batches_tracked += 1
    return mean.float(), variance.float(), total


def _added(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    weight, bias = (torch.stack(each) for each in zip(*parts, strict=True))
    return weight.sum(0), bias.sum(0)
