"""An encoder in an ONNX file, whatever made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.errors import BadInput, require
from handful.files import WRONG, file_digest, read_json
from handful.nets.elsewhere import Elsewhere
from handful.nets.given import as_maps
from handful.nets.preprocessing import Preprocessing, of_transformers


class OnnxSession:
    """A graph ready to run, one thread a call; copies share it, and another process opens the file again."""

    def __init__(self, path: str):
        runtime = require("onnxruntime", "onnx")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.path, self.run = path, runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        (self.input,) = self.run.get_inputs()

    def __deepcopy__(self, memo: dict[int, Any]) -> OnnxSession:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return OnnxSession, (self.path,)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        one = isinstance(self.input.shape[0], int)
        blocks = [x[i : i + self.input.shape[0]] for i in range(0, len(x), self.input.shape[0])] if one else [x]
        return np.concatenate([self.run.run(None, {self.input.name: b})[0] for b in blocks])


class Onnx(Elsewhere):
    """The first output of a graph with one input ``(n, 3, h, w)``: vectors, maps or tokens.

    ``size``, ``mean`` and ``std`` (``mean=0.5+0.5+0.5``) say how it wants its images; otherwise a ``preprocessor_config.json``
    beside the file does; otherwise they come at the graph's own size on the scale 0..1. Computed on the processor.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        model: str = "",
        size: int = 0,
        mean: tuple[float, ...] = (),
        std: tuple[float, ...] = (),
    ):
        super().__init__(shape)
        path = Path(model)
        if not path.is_file():
            raise BadInput(f"{model or 'nothing'} is not a file; write onnx:FILE")
        require("onnxruntime", "onnx")
        try:
            self.session = OnnxSession(str(path.resolve()))
            sides = [v if isinstance(v, int) else 0 for v in self.session.input.shape[2:]]
        except Exception as error:  # the runtime has errors of its own for every kind of damage
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise BadInput(f"{model} is not an ONNX file with one input of images ({reason})") from error
        self.register_buffer("file", torch.tensor(list(bytes.fromhex(file_digest(path))), dtype=torch.uint8))
        if len(sides) != 2:
            raise BadInput(f"{model} takes {self.session.input.shape}, not images (n, 3, h, w)")
        high, wide = (size or sides[0] or shape[0]), (size or sides[1] or shape[1])
        beside = path.parent / "preprocessor_config.json"
        if not (size or mean or std) and beside.is_file():
            try:
                found = of_transformers(read_json(beside), str(beside))
            except (OSError, *WRONG) as error:
                raise BadInput(f"{beside} is damaged ({error})") from error
        else:
            plain = {"mean": (mean * 3)[:3] if mean else (0.0,) * 3, "std": (std * 3)[:3] if std else (1.0,) * 3}
            found = Preprocessing((high, wide), None, plain["mean"], plain["std"])
        self.size = high
        self.prepare(found, "onnxruntime")

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32

    def output(self, x: Tensor) -> Tensor:
        return torch.from_numpy(self.session(x.float().cpu().numpy())).to(x.device)

    def forward(self, x: Tensor) -> Tensor:
        found = self.output(x)
        return found if found.ndim == 2 else as_maps(found).mean((2, 3))

    def maps(self, x: Tensor) -> Tensor:
        return as_maps(self.output(x))
