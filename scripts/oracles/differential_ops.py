"""Random ops and their gradients: a built op_program against PyTorch, in float64 and in the case's own dtype."""

import json
import math
import warnings
from functools import partial

import torch
from safetensors.torch import load_file, save_file
from scipy import stats
from torch.nn import functional as F

from differential_case import Difference, generators, matching, run
from oracle import cu_seqlens, split_rows
from ops import attention

UNIT = {torch.float32: 2.0 ** -24, torch.bfloat16: 2.0 ** -8, torch.float64: 2.0 ** -53}
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.0, 3e38, -3e38, 1e25, -1e25, 1e20, 1e-20,
           -1e-25, 1e-38, 1e-42, 88.0, -88.0, 104.0]


class OpCase:
    """Inputs exact in `dtype`, and a function of them that PyTorch computes in any dtype."""

    def __init__(self, name):
        self.name = name
        self.random, self.generator = generators(name)
        self.op = self.random.choice(list(OPS))
        dtypes = {torch.float32: 8, torch.float64: 1, torch.bfloat16: self.op in WITH_BF16}
        self.dtype = self.random.choices(list(dtypes), list(dtypes.values()))[0]
        self.attributes, self.inputs, self.integers, self.gradient = {}, [], [], None
        self.broadcasts = False         # a gradient is the sum of an element-wise one
        self.elementwise = False        # errors are relative to each element, not to the largest one
        self.sums = self.op in SUMS     # the same op on absolute values bounds what may cancel
        self.floor, self.floors = 0.0, {}  # the smallest size for relative errors, and that of some tensors
        self.function = OPS[self.op](self)

    def pick(self, *values):
        return self.random.choice(values)

    def size(self, low=1, high=9):
        return self.random.randint(low, high)

    def chance(self, of):
        return self.random.random() < of

    def shape(self, low=1, high=3):
        return [self.pick(1, 2, 3, 5, 8, 17, 33) for _ in range(self.size(low, high))]

    def axis(self, shape):
        self.attributes["axis"] = self.random.randrange(len(shape))
        return self.attributes["axis"]

    def values(self, *shape, scale=None, special=0.0):
        x = torch.randn(*shape, generator=self.generator, dtype=torch.float64)
        x = x * (scale or self.pick(1, 1, 1, 1e-3, 30, 1e3))
        if self.chance(0.2):
            x = (2 * x).round() / 2  # ties
        if self.chance(special):
            mask = torch.rand(x.shape, generator=self.generator) < 0.3
            drawn = torch.tensor(self.random.choices(SPECIAL, k=max(x.numel(), 1)), dtype=torch.float64)
            x = torch.where(mask, drawn[:x.numel()].view(x.shape), x)
        return x.to(self.dtype)

    def add(self, *shape, **how):
        self.inputs.append(self.values(*shape, **how))
        return self.inputs[-1]

    def index(self, high, *shape, dtype=torch.int64):
        self.integers.append(torch.randint(high, shape, generator=self.generator, dtype=dtype))
        return self.integers[-1]

    def lengths(self, count, *values):
        """The lengths of packed sentences, of which the op gets the starts."""
        found = [self.pick(*values) for _ in range(count)]
        self.integers.append(cu_seqlens(found))
        return found

    def evaluate(self, change):
        """The result and the gradients where every tensor was changed."""
        leaves = [change(x).requires_grad_() for x in self.inputs]
        y = self.function(*leaves)
        if self.gradient is None:
            self.gradient = torch.randn(y.shape, generator=self.generator).to(self.dtype)
        if not y.requires_grad:
            return [y]
        gradients = torch.autograd.grad(y, leaves, change(self.gradient).to(y.dtype), allow_unused=True)
        return [y.detach()] + [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, leaves)]

    def terms(self):
        """What may cancel in the result and the gradients, added up without signs."""
        if self.sums:
            return self.evaluate(lambda x: x.double().abs())
        if not self.broadcasts:
            return [torch.zeros(())] * (1 + len(self.inputs))
        leaves = [x.double().broadcast_to(self.gradient.shape).clone().requires_grad_() for x in self.inputs]
        gradients = torch.autograd.grad(self.function(*leaves), leaves, self.gradient.double())
        return [torch.zeros(())] + [g.abs().sum_to_size(x.shape) for g, x in zip(gradients, self.inputs)]


# ---- each function draws the inputs of a case and returns PyTorch's function ----


def unary(case, function, positive=False, floor=0.0):
    case.elementwise, case.floor = True, floor
    x = case.values(*case.shape(), special=0.4)
    case.inputs = [x.abs() if positive and case.chance(0.8) else x]
    return function


def binary(case, function):
    shape = case.shape()
    other = [1 if case.chance(0.25) else n for n in shape][case.random.randrange(len(shape)):]
    other = other if case.chance(0.4) else shape
    case.elementwise, case.broadcasts = other == shape, other != shape
    for each in case.random.sample([shape, other], 2):
        case.add(*each, special=0.4 * case.elementwise)  # else gradients are sums and overflow by their order
    return function


def where(case):
    shape = case.shape()
    mask = case.index(2, *shape).bool()
    case.add(*shape, special=0.4), case.add(*shape, special=0.4)
    return lambda a, b: torch.where(mask, a, b)


def reduction(case, function):
    shape = case.shape()
    if case.sums and case.chance(0.1):
        shape[case.random.randrange(len(shape))] = 0
    axes = case.random.sample(range(len(shape)), case.size(1, len(shape)))
    case.attributes = {"axes": axes, "keepdim": case.chance(0.5)}
    case.add(*shape, special=0.2 * (not case.sums))
    return lambda x: function(x, dim=axes, keepdim=case.attributes["keepdim"])


def rows(case):
    """Rows of one width, of common and of extreme sizes."""
    count = case.pick(0, 1, 2, 7) if case.chance(0.2) else case.size()
    scale = case.pick(None, None, None, 1e-12, 1e10, 1e20, 1e25)
    x = case.add(count, case.pick(1, 2, 3, 8, 48, 67), scale=scale, special=0.15)
    if count and case.dtype == torch.float32 and case.chance(0.05):
        x[0] = x[0, 0]  # a constant row: its mean may be rounded; PyTorch shows this only in f32
    return x


def softmax(case, function):
    case.floor = 1.0
    rows(case).add_(case.pick(0, 0, 20, 1e3, 1e6))
    return partial(function, dim=-1)


def layer_norm(case, residual=False):
    x = rows(case)
    if residual:
        case.add(*x.shape, scale=1)
    z = sum(case.inputs).double()
    case.add(x.shape[1], scale=1), case.add(x.shape[1], scale=1)
    eps = case.attributes["eps"] = case.pick(1e-5, 1e-12)
    rstd = (z - z.mean(1, keepdim=True)).square().mean(1).add(eps).rsqrt().nan_to_num(0, 0, 0)
    case.floor = max((z.abs().amax(1) * rstd).nan_to_num(0, 0, 0).tolist(), default=0.0)
    case.gradient = torch.randn(x.shape, generator=case.generator).to(case.dtype)
    term = (case.gradient * case.inputs[-2]).double().abs().nan_to_num(0, 0, 0).max().item() if x.numel() else 0.0
    cancelling = term * max(1.0, case.floor) * max(rstd.tolist(), default=0.0)
    case.floors = dict.fromkeys(("g0", "g1") if residual else ("g0",), cancelling)
    return lambda *xs: F.layer_norm(sum(xs[:-2]), xs[-1].shape, *xs[-2:], eps)


def inverse_norms(x):
    """The size of the terms that cancel in the gradient of x / |x|."""
    return max((1 / x.double().norm(dim=1).clamp(1e-12)).nan_to_num().tolist(), default=0.0)


def normalize(case):
    case.floors["g0"] = inverse_norms(rows(case))
    case.attributes["eps"] = 1e-12
    return partial(F.normalize, dim=-1, eps=1e-12)


def cosine(case):
    a = rows(case)
    case.inputs.append(a.clone() if case.dtype == torch.float32 and case.chance(0.2) else case.values(*a.shape))
    case.floors = {f"g{i}": inverse_norms(x) for i, x in enumerate(case.inputs)}
    case.attributes["eps"] = 1e-8
    return partial(F.cosine_similarity, dim=-1, eps=1e-8)


def cross_entropy(case):
    n, classes = case.size(), case.pick(1, 2, 3, 9, 33)
    case.add(n, classes, scale=case.pick(1, 20, 1e3), special=0.1).add_(case.pick(0, 20, 1e3, 1e5, 1e6))
    labels = case.index(classes, n)
    divisor = case.attributes["divisor"] = float(case.pick(n, n + 5))
    case.floors["g0"] = 1 / divisor  # the size of the terms that cancel
    return lambda x: F.cross_entropy(x, labels, reduction="sum") / divisor


def pooling(case, function):
    lengths = case.lengths(case.size(1, 5), 1, 2, 3, 9)
    case.add(sum(lengths), case.size(), special=0.1)
    return lambda x: torch.stack([function(part) for part in split_rows(x, lengths)])


def matmul(case):
    m, k, n = (case.pick(1, 2, 5, 17, 33, 64, 100) for _ in range(3))
    batch = [case.size(1, 3)] if case.chance(0.3) else []
    ta, tb = case.chance(0.5), case.chance(0.5)
    case.attributes = {"trans_a": ta, "trans_b": tb}
    case.add(*batch, *((k, m) if ta else (m, k))), case.add(*batch, *((n, k) if tb else (k, n)))
    return lambda a, b: (a.mT if ta else a) @ (b.mT if tb else b)


def linear(case, activation):
    t, i, h = (case.pick(1, 2, 5, 17, 33, 64) for _ in range(3))
    case.floor = float(i)
    for shape in ((t, i), (h, i), (h,))[:3 if case.chance(0.7) else 2]:
        case.add(*shape, scale=1)
    return lambda *xs: activation(F.linear(*xs))


def convolution(case):
    kernel, channels, out = case.size(1, 3), case.size(1, 4), case.size(1, 4)
    case.attributes = {"stride": case.size(1, 2), "padding": case.size(0, 1)}
    for shape in ((case.size(1, 3), channels, case.size(3, 8), case.size(3, 8)), (out, channels, kernel, kernel),
                  (out,))[:3 if case.chance(0.7) else 2]:
        case.add(*shape)
    return lambda *xs: F.conv2d(*xs, **case.attributes)


def max_pool(case):
    kernel, stride = case.size(1, 3), case.size(1, 3)
    case.attributes = {"kernel": kernel, "stride": stride}
    case.add(case.size(1, 3), case.size(1, 3), case.size(3, 8), case.size(3, 8))
    return lambda x: F.max_pool2d(x, kernel, stride)


def self_attention(case):
    heads, d, scale = case.size(1, 3), case.pick(1, 4, 8, 16, 32, 64), case.pick(0.3, 1, 3)
    lengths = case.lengths(case.size(1, 4), 1, 2, 3, 9, 17, 40, 70)
    case.attributes["heads"] = heads
    case.floor = 16 + 16 * scale ** 2  # of the scores
    case.add(sum(lengths), 3 * heads * d, scale=scale)
    if case.chance(0.5):
        case.add(32, heads, scale=1)
    return lambda qkv, table=None: attention(*qkv.chunk(3, 1), table, lengths, heads)


def embedding(case):
    vocab = case.size()
    ids = case.index(vocab, case.pick(0, 1, 7, 20), dtype=torch.int32)
    case.add(vocab, case.size(), scale=1)
    return lambda w: F.embedding(ids, w)


def along_axis(case, kind):
    shape, count = case.shape(1, 3), case.size(1, 12)
    axis = case.axis(shape)
    case.add(*shape, scale=1)
    of_all = kind != "index_select"
    index = case.index(shape[axis], *(shape[:axis] if of_all else []), count, *(shape[axis + 1:] if of_all else []))
    if kind == "scatter_add":
        case.add(*index.shape, scale=1)
    return lambda x, *source: getattr(x, kind)(axis, index, *source)


def joined(case, function):
    shape = case.shape(2, 3)
    axis = case.axis(shape)
    for _ in range(case.size(1, 4)):
        case.add(*shape[:axis], shape[axis] if function is torch.stack else case.size(1, 6), *shape[axis + 1:])
    return lambda *parts: function(parts, axis)


def permute(case):
    shape = case.shape(2, 4)
    axes = case.attributes["axes"] = case.random.sample(range(len(shape)), len(shape))
    case.add(*shape)
    return lambda x: x.permute(axes).contiguous()


def pad(case):
    shape, before, after = case.shape(1, 3), case.size(0, 3), case.size(0, 3)
    axis = case.axis(shape)
    case.attributes |= {"before": before, "after": after}
    case.add(*shape)
    return lambda x: F.pad(x, (0, 0) * (len(shape) - 1 - axis) + (before, after))


def argmax(case):
    x = case.add(*case.shape(), special=0.2)
    axis = case.axis(x.shape)
    return lambda x: x.detach().argmax(axis)


def condition(x):
    """How much larger the values are than their deviations from the mean."""
    scaled = (x / x.abs().max()).nan_to_num()
    return min(1e12, math.sqrt(len(x)) / max((scaled - scaled.mean()).norm().item(), 1e-300))


def correlation(case, function):
    case.dtype = torch.float64
    n = case.size(2, 30)
    for _ in range(2):
        x = case.add(n, scale=10.0 ** case.pick(-170, -160, -3, 0, 0, 0, 3, 160, 200))
        if case.chance(0.15):
            x[:] = case.pick(0.1, 0.0, 1 / 3, 1e200, x[0].item())
        elif case.chance(0.1):
            case.inputs[-1] = case.inputs[0].clone()
    case.floor = 16 * max(1, *map(condition, case.inputs))

    def peer(*sides):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.tensor([function(*(side.detach().numpy() for side in sides)).statistic])
    return peer


ELEMENTWISE = ("neg", "abs", "exp", "log", "sqrt", "rsqrt", "sigmoid", "relu", "square", "reciprocal",
               "sin", "cos", "log1p")
OPS = {name: partial(unary, function=getattr(torch, name), positive=name in ("log", "sqrt", "rsqrt", "log1p"))
       for name in ELEMENTWISE}
OPS |= {name: partial(binary, function=getattr(torch, name))
        for name in ("add", "sub", "mul", "div", "pow", "maximum", "minimum")}
OPS |= {name: partial(reduction, function=function) for name, function in {
    "sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}.items()}
OPS |= {f"{name}_pooling": partial(pooling, function=function) for name, function in {
    "mean": lambda h: h.mean(0), "cls": lambda h: h[0], "max": lambda h: h.max(0).values}.items()}
OPS |= {name: partial(along_axis, kind=name) for name in ("gather", "index_select", "scatter_add")}
OPS |= {
    "tanh": partial(unary, function=torch.tanh, floor=1.0), "gelu": partial(unary, function=F.gelu, floor=1.0),
    "where": where, "softmax": partial(softmax, function=F.softmax), "permute": permute, "pad": pad, "argmax": argmax,
    "log_softmax": partial(softmax, function=F.log_softmax), "layer_norm": layer_norm, "normalize": normalize,
    "residual_layer_norm": partial(layer_norm, residual=True), "cosine_similarity": cosine, "conv2d": convolution,
    "cross_entropy": cross_entropy, "matmul": matmul, "linear": partial(linear, activation=lambda y: y),
    "linear_gelu": partial(linear, activation=F.gelu), "max_pool2d": max_pool, "attention": self_attention,
    "concat": partial(joined, function=torch.cat), "stack": partial(joined, function=torch.stack),
    "pearson": partial(correlation, function=stats.pearsonr), "embedding": embedding,
    "spearman": partial(correlation, function=stats.spearmanr)}
SUMS = ("sum", "mean", "matmul", "linear", "conv2d", "max_pool2d", "embedding", "gather", "index_select", "scatter_add")
# All other ops combine bf16 activations with f32 parameters.
WITH_BF16 = (*ELEMENTWISE, "tanh", "gelu", "add", "sub", "mul", "div", "pow", "maximum", "minimum", "sum", "mean",
             "max", "min", "softmax", "log_softmax", "normalize", "matmul", "gather", "index_select", "scatter_add",
             "concat", "stack", "permute", "pad", "argmax", "where")


OVERFLOW = "squares overflow: NaN, where PyTorch has 0"
DEVIATIONS = "squares overflow: the bias, where PyTorch has that or NaN"


def beyond(test):
    """Elements of rows of which either side's norm is so."""
    def mask(case, ours):
        found = torch.stack([test(x.square().sum(1).sqrt()) for x in case.inputs]).any(0)
        return found if ours.dim() == 1 else found[:, None].expand_as(ours)
    return mask


def deviation_overflows(case, ours):
    z = sum(case.inputs[:-2])
    rows_that_do = (z - z.mean(1, keepdim=True)).square().sum(1).isfinite().logical_not()
    return rows_that_do[:, None].expand_as(ours) if ours.dim() == 2 else rows_that_do.any()


# Intended refusals: a pattern of the message, and the reason.
REFUSED = {}
# Intended differences: op, tensors, their elements, and the reason.
MEANT = [
    ("gelu", "g0", lambda case, ours: case.inputs[0].isinf(), "the slope at an infinity is 0 or 1, not inf times 0"),
    ("abs", "g0", lambda case, ours: case.inputs[0].isnan(), "the slope at NaN is NaN, not 0"),
    ("layer_norm", "", deviation_overflows, DEVIATIONS), ("residual_layer_norm", "", deviation_overflows, DEVIATIONS),
    ("normalize", "g0", beyond(torch.isinf), OVERFLOW), ("cosine_similarity", "", beyond(torch.isinf), OVERFLOW),
    ("cosine_similarity", "g", beyond(lambda norm: norm < 1e-8),
     "a norm below eps counts as eps, a constant; in PyTorch a gradient flows through it"),
]


# ---- the comparison ----


def narrow_dtype(dtype):
    """In which PyTorch's own rounding shows against float64."""
    return torch.float32 if dtype == torch.float64 else dtype


def allowed_error(case, key, exact, narrow, cancelled):
    """16 times PyTorch's own rounding in that dtype, and 16 units of each element or of the largest one added up."""
    unit, tiny, floor = UNIT[case.dtype], 8 * torch.finfo(case.dtype).tiny, case.floors.get(key, case.floor)
    own = ((narrow.double() - exact).abs() * (unit / UNIT[narrow_dtype(case.dtype)])).nan_to_num(0, 0, 0)
    size = exact.abs().nan_to_num(0, 0, 0)
    if case.elementwise:
        return 16 * own + 16 * unit * (size + floor) + tiny
    largest = max(size.max().item(), floor, cancelled.double().abs().nan_to_num(0, 0, 0).max().item())
    return (16 * own.max() + 16 * unit * largest + tiny).expand_as(exact)


def share_of(case, ours, exact, single, allowed, cancelled):
    """The largest error as a share of the allowed one; a result beyond numbers may be PyTorch's in that dtype.

    Where terms that cancel overflow together, the order of the sum decides.
    """
    ours, single = ours.double(), single.double()
    same = sum((ours == x) | (ours.isnan() & x.isnan()) for x in (exact.to(case.dtype).double(), single)).bool()
    same |= cancelled.isfinite() & (cancelled.double().abs() > torch.finfo(case.dtype).max)
    share = torch.where(same, 0, ((ours - exact).abs() / allowed).nan_to_num(math.inf, math.inf))
    if share.max() > 1:
        at = share.argmax()
        raise Difference(f"{ours.flatten()[at].item():.9g} at {at.item()}, PyTorch {exact.flatten()[at].item():.9g} "
                         f"({case.dtype}: {single.flatten()[at].item():.9g}), error {share.max():.3g} of the allowed")
    return share.max().item()


def leave_out(case, key, ours, expected, tally):
    """Takes PyTorch's value where another one is meant."""
    for op, tensors, where_meant, reason in MEANT:
        if op == case.op and key.startswith(tensors) and (mask := where_meant(case, ours)).any():
            tally.meant[f"op {op}", f"{key}: {reason}"] += 1
            ours = torch.where(mask, expected, ours)
    return ours


def check(case, results, tally):
    """Every tensor of the case; the largest share of an allowed error."""
    single, exact, narrow = (case.evaluate(lambda x, dtype=dtype: x.detach().to(dtype, copy=True))
                             for dtype in (case.dtype, torch.float64, narrow_dtype(case.dtype)))
    cancelled = case.terms()
    worst = 0.0
    for i, expected in enumerate(single):
        key = f"g{i - 1}" if i else "y"
        ours = results[f"{case.name}/{key}"]
        try:
            if ours.shape != expected.shape:
                raise Difference(f"shape {tuple(ours.shape)}, PyTorch {tuple(expected.shape)}")
            if ours.numel():
                ours, wide = leave_out(case, key, ours, expected, tally), exact[i].double()
                allowed = allowed_error(case, key, wide, narrow[i], cancelled[i])
                worst = max(worst, share_of(case, ours, wide, expected, allowed, cancelled[i]))
        except Difference as difference:
            shapes = ", ".join(str(tuple(x.shape)) for x in case.inputs)
            what = f"{case.op} {case.dtype} {key} of {shapes} {case.attributes or ''}"
            raise Difference(f"{what}: {difference}") from None
    return worst


def batch(names, options, tally):
    """All cases in one call of op_program; returns the differences by case."""
    cases = [OpCase(name) for name in names]
    tensors, lines = {}, []
    for case in cases:
        case.evaluate(lambda x: x.detach().clone())  # draws the gradient
        parts = {f"x{i}": x for i, x in enumerate(case.inputs)} | {f"i{i}": x for i, x in enumerate(case.integers)}
        tensors |= {f"{case.name}/{key}": x.detach().clone() for key, x in (parts | {"grad": case.gradient}).items()}
        lines.append(json.dumps({"case": case.name, "op": case.op, "inputs": len(case.inputs), **case.attributes}))
    given, made = options.scratch / "inputs.safetensors", options.scratch / "results.safetensors"
    save_file(tensors, given)
    done = run(options.ops, given, made, input="\n".join(lines) + "\n")
    if done.returncode != 0:
        return {names[0]: f"{options.ops} ended with {done.returncode}: {done.stderr.strip()}"}
    refused, results = dict(line.split(" ", 1) for line in done.stdout.splitlines()), load_file(made)
    differences = {}
    for case in cases:
        try:
            if case.name not in refused:
                tally.count(f"op {case.op}", check(case, results, tally))
            elif reason := matching(REFUSED, refused[case.name]):
                tally.refused[f"op {case.op}", reason] += 1
            else:
                raise Difference(f"{case.op} refused: {refused[case.name]}")
        except Difference as difference:
            differences[case.name] = str(difference)
    return differences
