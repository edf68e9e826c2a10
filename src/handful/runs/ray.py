"""The Ray engine: chunks of a run, or cells of a recipe, on the nodes of a cluster."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from handful._version import __version__
from handful.errors import BadInput, Mismatch, require
from handful.runs.engine import RETRIES, Work, at_least_one, died
from handful.runs.shipping import Depot, connect, pack_context


class Ray:
    """Workers of a Ray cluster.

    The context (learner, rule, metrics) reaches each node once through Ray's object store; collections, models and features by
    path where a node sees the same content, else shipped once a node by content hash. At most two items a worker are under way.
    An item whose worker or node dies is given to another by Ray, at most ``retries`` times.

    Parameters
    ----------
    address
        ``auto`` (the cluster that this machine belongs to), HOST:PORT, or None to start a cluster of this machine alone.
    workers
        Items at a time; as many as the cluster has cores by default.
    share
        Whether nodes may use this machine's paths where they find the same content; False ships everything.
    """

    name, local, here = "ray", False, False

    def __init__(
        self, address: str | None = None, workers: int | None = None, retries: int = RETRIES, share: bool = True
    ):
        at_least_one(workers)
        if address not in (None, "auto") and not str(address).rpartition(":")[2].isdigit():
            raise BadInput(f"{address!r} is not the address of a Ray cluster; give auto or HOST:PORT")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self.ray = require("ray", "ray")
        self.address, self.asked, self.retries, self.share = address, workers, retries, share
        self.own, self.depot = False, None

    @property
    def workers(self) -> int:
        self._connect()
        return self.asked or max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def _connect(self) -> None:
        if self.ray.is_initialized():
            return
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
        if self.address is None:
            options["num_cpus"] = self.asked or os.cpu_count()
        else:
            options = {"address": self.address, "log_to_driver": False, "logging_level": "ERROR"}
        try:
            if self.address not in (None, "auto"):  # asked first, since Ray itself tries for minutes
                host, _, port = str(self.address).rpartition(":")
                socket.create_connection((host, int(port)), timeout=10).close()
            self.ray.init(**options)
        except (OSError, RuntimeError, ValueError) as error:
            raise BadInput(
                f"no Ray cluster answers at {self.address or 'this machine'} ({str(error).splitlines()[0][:150]}); start one "
                "with: ray start --head"
            ) from error
        self.own = True

    def close(self) -> None:
        """Leave the cluster, if this engine joined it (and end it, if this engine started it)."""
        if self.depot is not None:
            self.ray.kill(self.depot)
            self.depot = None
        if self.own:
            self.ray.shutdown()
            self.own = False

    def map(self, work: Work, context: Any, items: Sequence[Any]) -> Iterator[Any]:
        if not len(items):
            return
        self._connect()
        ray, errors = self.ray, self.ray.exceptions
        blob, parcels = pack_context(context, self.share, self.ray.cloudpickle.CloudPickler)
        depot = self._depot()
        ray.get(depot.offer.remote({p.key: p.path for p in parcels}))
        remote = ray.remote(_work).options(
            num_cpus=getattr(context, "threads", 1),
            num_gpus=getattr(context, "gpus", 0),
            max_retries=self.retries,
            scheduling_strategy="SPREAD",
        )
        key, refs = uuid.uuid4().hex, [ray.put(blob)]
        waiting, most = iter(items), 2 * self.workers
        under_way: set[Any] = set()
        try:
            while True:
                while len(under_way) < most and (item := next(waiting, None)) is not None:
                    under_way.add(remote.remote(key, refs, depot, __version__, work, item))
                if not under_way:
                    return
                asked = list(under_way)
                done, _ = ray.wait(asked, num_returns=1, timeout=0.5)
                if done:  # and all that came with it: a look costs the driver as much for one as for thousands
                    done, _ = ray.wait(asked, num_returns=len(asked), timeout=0)
                for ref in done:
                    under_way.discard(ref)
                    try:
                        yield ray.get(ref)
                    except errors.RayTaskError as error:
                        cause = error.cause
                        raise cause if isinstance(cause, BaseException) else error from None
                    except errors.RayError as error:
                        raise died("a Ray worker", self.retries + 1) from error
        finally:
            for ref in under_way:
                ray.cancel(ref, force=False)

    def _depot(self) -> Any:
        """The one that reads this machine's files for the nodes that lack them."""
        if self.depot is None:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            here = NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=False)
            self.depot = self.ray.remote(Depot).options(num_cpus=0, scheduling_strategy=here).remote()
        return self.depot


_HELD: tuple[str, Any] | None = None


def _work(key: str, refs: list[Any], depot: Any, version: str, work: Work, item: Any) -> Any:
    """One item, on a node; a worker process unpacks a context once."""
    global _HELD
    import ray
    from ray import cloudpickle

    if version != __version__:
        raise Mismatch(
            f"a node has handful {__version__}, this machine {version}; install the same version on all nodes"
        )
    if _HELD is None or _HELD[0] != key:
        from handful.progress import silence

        silence()
        os.environ.setdefault("HANDFUL_CORES", "1")  # Ray counts the cores of a worker
        _HELD = None
        connect(lambda *place: ray.get(depot.read.remote(*place)))
        _HELD = (key, cloudpickle.loads(ray.get(refs[0])))
    return work(_HELD[1], item)
