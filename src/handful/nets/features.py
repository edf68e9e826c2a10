"""The one place where images become features: batches of one fixed, padded size."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from handful.clock import timed
from handful.cores import cores
from handful.data.collection import Collection
from handful.nets.compute import Compute, within_memory


def embed_images(net: Any, images: np.ndarray, compute: Compute, maps: bool = False) -> Tensor:
    """Features of an array of images, in evaluation mode and without gradients, on the device.

    On the processor each batch has a core of its own and one thread, so that as many batches as there are cores are under
    way at a time and no bit depends on how many that are.
    """
    device = torch.device(compute.device)
    starts = range(0, len(images), compute.batch)
    if not starts:
        shape = net.map_shape if maps else (net.width,)
        return torch.zeros((0, *shape), device=device)

    def embed(start: int) -> Tensor:
        with torch.inference_mode(), compute.autocast():
            block = torch.from_numpy(np.array(images[start : start + compute.batch]))
            n = len(block)
            if n < compute.batch:
                block = torch.cat([block, block.new_zeros((compute.batch - n, *block.shape[1:]))])
            x = net.normalise(block.to(device, non_blocking=True))
            return (net.maps(x) if maps else net(x))[:n].float()

    training = net.training
    net.eval()
    try:
        at_once = min(len(starts), cores()) if device.type == "cpu" and compute.threads == 1 else 1
        with within_memory(f"embed fewer images at a time: --batch {max(1, compute.batch // 2)}"):
            if at_once == 1:
                out = [embed(start) for start in starts]
            else:
                with ThreadPoolExecutor(at_once, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                    out = list(pool.map(embed, starts))
    finally:
        net.train(training)
    return torch.cat(out).clone()


def block_of(compute: Compute) -> int:
    """Images to read at a time: enough batches for every core, memory bounded by them."""
    return compute.batch * max(8, 2 * cores())


def embed_rows(
    net: Any,
    collection: Collection,
    rows: np.ndarray,
    compute: Compute,
    maps: bool = False,
    advance: Callable[[int], None] | None = None,
) -> np.ndarray:
    """Float32 features of the given image numbers, each image read and embedded once, memory bounded by the batch."""
    out: np.ndarray | None = None
    step = block_of(compute)
    for start in range(0, len(rows), step):
        with timed("read"):
            images = collection.read(rows[start : start + step])
            release(collection.array)
        with timed("embed"):
            block = embed_images(net, images, compute, maps).cpu().numpy()
        if out is None:
            out = np.empty((len(rows), *block.shape[1:]), dtype=np.float32)
        out[start : start + len(block)] = block
        if advance:
            advance(len(block))
    if out is None:
        return np.zeros((0, *(net.map_shape if maps else (net.width,))), dtype=np.float32)
    return out


def release(array: np.ndarray | None) -> None:
    """Give a mapped array's pages back to the system, which keeps them as long as it has room: a large collection that is
    read through must not count as this process's memory."""
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and getattr(array, "mode", "") in ("r", "r+", "w+") and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def weights_hash(net: nn.Module) -> str:
    """Hash of a network's parameters and buffers, for caches and results."""
    digest = hashlib.sha256(type(net).__name__.encode())
    for name, tensor in sorted(net.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.detach().float().cpu().numpy()).tobytes())
    return digest.hexdigest()[:16]
