"""Writes tests/oracles/extremes.safetensors: what PyTorch's f32 makes of zeros, denormals, huge and tiny numbers,
infinities and NaN, and of tensors without elements."""

import itertools
import math

import torch
import torch.nn.functional as F

from oracle import Oracle, i64

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, 1e-45, -1e-45, 1e-40, 1e-20, -1e-20, 1e10, 1e20, -1e20, 3e38,
           -3e38, math.inf, -math.inf, math.nan]
WIDE = SPECIAL + [1e-38, 1e-8, -1e-8, 1e-4, 0.6, 4.0, 9.5, -9.5, 20.0, -20.0, 80.0, -80.0, 88.5, -88.5, 89.0, -104.0]


def f32(values):
    return torch.tensor(values, dtype=torch.float32)


def differentiate(o, case, function, inputs, **extra):
    """y and the inputs' gradients, all f32; the gradient of y is 1."""
    leaves = {name: value.clone().requires_grad_() for name, value in inputs.items()}
    y = function(*leaves.values())
    gradients = torch.autograd.grad(y, leaves.values(), torch.ones_like(y))
    o.add(case, y=y, **inputs, **extra, **{f"grad_{name}": g for name, g in zip(leaves, gradients)})


def elementwise(o):
    functions = {"neg": torch.neg, "abs": torch.abs, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt,
                 "rsqrt": torch.rsqrt, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu,
                 "gelu": F.gelu, "sign": torch.sign, "square": torch.square, "reciprocal": torch.reciprocal,
                 "sin": torch.sin, "cos": torch.cos, "log1p": torch.log1p}
    for name, function in functions.items():
        # PyTorch's gelu overflows before it halves, and its vector code turns infinity into NaN.
        values = [x for x in WIDE if not abs(x) > 1e38] if name == "gelu" else WIDE
        differentiate(o, f"{name}.extremes", function, {"x": f32(values)})
    a, b = f32(list(itertools.product(SPECIAL, SPECIAL))).T.contiguous()
    for name in ("add", "sub", "mul", "div", "pow", "maximum", "minimum"):
        differentiate(o, f"{name}.extremes", getattr(torch, name), {"a": a, "b": b})
    differentiate(o, "div.broadcast", torch.div, {"a": f32([[1e-30, 2.0, -3e30]]), "b": f32([[1e-25], [1e25], [4.0]])})
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        o.add(f"{name}.extremes", a=a, b=b, y=getattr(torch, name)(a, b))
    numbers = {"add": lambda x, c: x + c, "sub": lambda x, c: x - c, "mul": lambda x, c: x * c,
               "div": lambda x, c: x / c, "radd": lambda x, c: c + x, "rsub": lambda x, c: c - x,
               "rmul": lambda x, c: c * x, "rdiv": lambda x, c: c / x}
    for name, function in numbers.items():
        for c in (3.0, 0.1, 1e-40, 1e20):
            differentiate(o, f"{name}_number.{c:g}", lambda x: function(x, c), {"x": f32(WIDE)}, number=c)
        x = f32([1.0, 3.0, -2.5, 0.0078125, 100.0]).bfloat16()
        o.add(f"{name}_number.bf16", x=x, number=0.1, y=function(x, 0.1))


def reductions(o):
    rows = {"nan": [1.0, math.nan, 3.0, math.nan], "inf": [1.0, math.inf, 3.0, math.inf],
            "both": [math.inf, -math.inf, 1.0, 0.0], "lowest": [-math.inf] * 4, "zeros": [-0.0, 0.0, -0.0, -0.0],
            "minus": [-0.0] * 4, "huge": [3e38, 3e38, 1.0, 0.0], "denormal": [1e-45, 1e-40, -1e-45, 0.0]}
    for name in ("sum", "mean", "amax", "amin"):
        for label, row in rows.items():
            differentiate(o, f"{name}.{label}", lambda x: getattr(torch, name)(x, dim=-1), {"x": f32([row])})
    for name in ("sum", "mean"):
        for label, shape in {"row": (3, 0), "all": (0,)}.items():
            differentiate(o, f"{name}.empty_{label}", lambda x: getattr(torch, name)(x, dim=-1), {"x": torch.zeros(shape)})
    for label, row in rows.items():
        x = f32([row])
        o.add(f"argmax.{label}", x=x, y=x.argmax(-1))


def rows_to_rows(o):
    rows = {"nan": [1.0, math.nan, 3.0], "inf": [1.0, math.inf, 3.0], "minus_inf": [-math.inf, 2.0, 1.0],
            "lowest": [-math.inf] * 3, "huge": [3e38, -3e38, 0.0], "same": [1e30] * 3, "zeros": [0.0, -0.0, 0.0],
            "1e19": [1e19, -1e19, 0.0], "tiny": [1e-30, 2e-30, 0.0], "denormal": [1e-45, 2e-40, 0.0],
            "1e25": [1e25, 1.0, 0.0]}
    weight = f32([1.0, -2.0, 3.0])
    for label, row in rows.items():
        x = {"x": f32([row])}
        differentiate(o, f"softmax.{label}", lambda x: F.softmax(x, -1) * weight, x)
        differentiate(o, f"log_softmax.{label}", lambda x: F.log_softmax(x, -1) * weight, x)
        differentiate(o, f"normalize.{label}", lambda x: F.normalize(x, dim=-1) * weight, x)
        differentiate(o, f"layer_norm.{label}", lambda x: F.layer_norm(x, (3,)) * weight, x)
        differentiate(o, f"cross_entropy.{label}", lambda x: F.cross_entropy(x, i64([1])), x, labels=i64([1]))
        differentiate(o, f"cosine_similarity.{label}", lambda a, b: F.cosine_similarity(a, b),
                      {"a": f32([row]), "b": weight.view(1, 3)})
    for label, value in {"1e25": 1e25, "minus_1e25": -1e25, "1e-25": 1e-25, "zero": 0.0, "inf": math.inf}.items():
        differentiate(o, f"normalize.column_{label}", lambda x: F.normalize(x, dim=-1), {"x": f32([[value]])})


def large_logits(o):
    """In f64, rounded once: the f32 gradient must not grow less exact with the logits."""
    labels = o.integers(7, 64)
    for exponent in range(7):
        x = (o.randn(64, 7) * 2 + 10.0 ** exponent).float().double()
        o.differentiate(f"large_logits.1e{exponent}", lambda x: F.cross_entropy(x, labels, reduction="sum"), {"x": x},
                        labels=labels)


def main():
    o = Oracle(seed=2)
    for family in (elementwise, reductions, rows_to_rows, large_logits):
        family(o)
    o.save("extremes.safetensors")


if __name__ == "__main__":
    main()
