"""Shared by the oracle generators: cases of named tensors, written as one safetensors file.

A case is computed in float64 from float32 inputs and rounded to float32 once, so that what a test
measures is the error of the code under test alone.
"""

import os
import pathlib

import torch
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Files too large to commit are in RINGLET_ORACLES, for the tests, too.
FOLDER = pathlib.Path(os.environ.get("RINGLET_ORACLES") or ROOT / "tests" / "oracles")


class Oracle:
    """Tensors under `case/tensor`: f32, integers, u8 for booleans, f64 for scalar attributes."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.tensors = {}

    def randn(self, *shape, scale=1.0):
        """Normal values as float64 that are exact in float32."""
        drawn = torch.randn(shape, generator=self.generator, dtype=torch.float32) * scale
        return drawn.double()

    def uniform(self, low, high, *shape):
        drawn = torch.rand(shape, generator=self.generator, dtype=torch.float32)
        return (drawn * (high - low) + low).double()

    def integers(self, high, *shape):
        return torch.randint(high, shape, generator=self.generator)

    def add(self, case, **tensors):
        for name, value in tensors.items():
            key = f"{case}/{name}"
            assert key not in self.tensors, key
            if not isinstance(value, torch.Tensor):  # an attribute such as eps keeps its bits
                value = torch.as_tensor(value, dtype=f64_if_float(value))
            elif value.dtype == torch.float64:
                value = value.float()
            elif value.dtype == torch.bool:
                value = value.to(torch.uint8)
            self.tensors[key] = value.detach().clone().contiguous()

    def differentiate(self, case, function, inputs, **extra):
        """Records inputs, y = function(*inputs), a drawn grad_y and grad_<input> for each input.

        A scalar y gets grad_y = 1. A function that returns a tuple gives y0, y1, ... and grad_y0, ...
        """
        leaves = {name: value.clone().requires_grad_() for name, value in inputs.items()}
        result = function(*leaves.values())
        outputs = result if isinstance(result, tuple) else (result,)
        names = ["y"] if len(outputs) == 1 else [f"y{i}" for i in range(len(outputs))]
        upstream = [torch.ones_like(y) if y.dim() == 0 else self.randn(*y.shape) for y in outputs]
        gradients = torch.autograd.grad(outputs, leaves.values(), upstream)
        self.add(case, **inputs, **extra)
        self.add(case, **dict(zip(names, outputs)))
        self.add(case, **{f"grad_{name}": g for name, g in zip(names, upstream)})
        self.add(case, **{f"grad_{name}": g for name, g in zip(leaves, gradients)})

    def save(self, name):
        FOLDER.mkdir(parents=True, exist_ok=True)
        path = FOLDER / name
        save_file(self.tensors, path, metadata={"format": "pt"})
        path.chmod(0o644)
        cases = {key.split("/")[0] for key in self.tensors}
        print(f"{path}: {len(cases)} cases, {len(self.tensors)} tensors, "
              f"{path.stat().st_size} bytes")


def f64_if_float(value):
    first = value[0] if isinstance(value, (list, tuple)) else value
    return torch.float64 if isinstance(first, float) else None


def i32(values):
    return torch.as_tensor(values, dtype=torch.int32)


def i64(values):
    return torch.as_tensor(values, dtype=torch.int64)


def f64(value):
    return torch.tensor(value, dtype=torch.float64)


def cu_seqlens(lengths):
    """Row starts of sequences laid end to end, one more than there are sequences."""
    return i32([sum(lengths[:i]) for i in range(len(lengths) + 1)])


def split_rows(packed, lengths):
    return torch.split(packed, list(lengths))
