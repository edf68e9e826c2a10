"""Training on several processes through torchrun, compiled or in mixed precision: what the one training loop needs for it.

The micro-batches of a step (``schedule.accumulate`` of them) have numbers, and whatever is drawn for one of them (tasks or images,
augmentation, dropout) is a function of its number. Processes take turns at them, so that together they draw what one process draws.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from handful.errors import BadInput, Mismatch
from handful.methods.schedule import Schedule
from handful.nets.compute import Compute


@dataclass(frozen=True)
class Group:
    """This process among those that train together."""

    rank: int = 0
    size: int = 1

    def sum(self, value: float, device: Any) -> float:
        """A number added up over all processes."""
        if self.size == 1:
            return value
        total = torch.tensor(value, dtype=torch.float64, device=device)
        dist.all_reduce(total)
        return float(total)

    def tell(self, value: Any) -> Any:
        """What process 0 has, on all processes."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, 0)
        return box[0]

    def equalise(self, module: nn.Module) -> None:
        """Give all processes the parameters and buffers of process 0."""
        if self.size > 1:
            for tensor in module.state_dict().values():
                dist.broadcast(tensor, 0)


def announced() -> bool:
    """Whether torchrun has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) >= 2 and "RANK" in os.environ


def join(device: str = "cpu") -> Group:
    """The group that torchrun announces in the environment (gloo on the CPU, NCCL on CUDA); one process without it."""
    if not dist.is_available():
        return Group()
    if not dist.is_initialized():
        if not announced():
            return Group()
        dist.init_process_group("nccl" if torch.device(device).type == "cuda" else "gloo")
    return Group(dist.get_rank(), dist.get_world_size())


def leave() -> None:
    """End the group, if there is one: all together, for gloo's threads abort a process that leaves while another still talks."""
    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def pieces() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def cut(schedule: Schedule) -> int:
    """Into how many pieces each micro-batch is cut: 1 where the processes can share the micro-batches as they are."""
    return 1 if schedule.accumulate % pieces() == 0 else pieces()


def piece_of(number: int, by: int, what: str) -> int:
    """Tasks or images of one piece; refused where they cannot be shared evenly."""
    if number % by:
        raise BadInput(
            f"{by} processes cannot share {what} of {number} evenly; set it, or schedule.accumulate, to a multiple of {by}"
        )
    return number // by


class Losses(nn.Module):
    """The loss of a numbered micro-batch as a module, which is what DistributedDataParallel wraps."""

    def __init__(self, modules: nn.Module, loss: Callable[[int], Tensor]):
        super().__init__()
        self.learned, self.loss = modules, loss

    def forward(self, number: int) -> Tensor:
        return self.loss(number)


class Backward:
    """Loss and gradients of micro-batches, averaged over processes at the last of a step, scaled under float16."""

    def __init__(self, modules: nn.Module, loss: Callable[[int], Tensor], compute: Compute, world: Group):
        self.world, self.loss = world, loss
        self.parallel: Any = None
        kind = torch.device(compute.device).type
        self.scaler = torch.amp.GradScaler(kind, enabled=compute.precision == "float16")
        if world.size > 1:
            if compute.sync_norm:
                if kind != "cuda":
                    raise Mismatch("synchronised batch norm runs on CUDA only; leave sync_norm out on the CPU")
                nn.SyncBatchNorm.convert_sync_batchnorm(modules)
            self.parallel = nn.parallel.DistributedDataParallel(Losses(modules, loss), find_unused_parameters=True)

    def __call__(self, number: int, share: float, last: bool) -> float:
        """Add the gradients of one micro-batch; ``share`` divides its loss."""
        hold = self.parallel.no_sync() if self.parallel is not None and not last else nullcontext()
        with hold:
            value = (self.parallel or self.loss)(number) / share
            self.scaler.scale(value).backward()
        return float(value.detach())

    def update(self, optimiser: torch.optim.Optimizer, clip: float, parameters: list[nn.Parameter]) -> None:
        if clip:
            if self.scaler.is_enabled():
                self.scaler.unscale_(optimiser)
            torch.nn.utils.clip_grad_norm_(parameters, clip)
        self.scaler.step(optimiser)
        self.scaler.update()


@contextmanager
def compiled(learner: Any) -> Iterator[None]:
    """Within the block the backbone runs through torch.compile, if the learner's compute asks for it."""
    backend = learner.compute.compile
    if not backend:
        yield
        return
    if not learner.embeds:
        raise Mismatch(
            f"{learner.method.name} takes gradients through its own steps, which torch.compile cannot; leave compile out"
        )
    backbone = learner.backbone
    if learner.method.maps:
        backbone.maps = torch.compile(backbone.maps, backend=backend)
    else:
        backbone.compile(backend=backend)
    try:
        yield
    finally:
        backbone._compiled_call_impl = None
        backbone.__dict__.pop("maps", None)
