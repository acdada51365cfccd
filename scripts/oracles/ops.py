"""Writes tests/oracles/ops.safetensors: every op and its gradients as PyTorch computes them."""

import math

import torch
import torch.nn.functional as F
from transformers import get_constant_schedule_with_warmup, get_cosine_schedule_with_warmup
from transformers import get_linear_schedule_with_warmup
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

from oracle import Oracle, cu_seqlens, f64, i32, i64, split_rows


def elementwise_binary(o):
    functions = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div,
                 "maximum": torch.maximum, "minimum": torch.minimum}
    shapes = {"same": ((3, 5), (3, 5)), "row": ((4, 3, 5), (5,)), "column": ((3, 1), (3, 5)),
              "scalar": ((3, 5), ()), "both": ((4, 1, 3), (2, 1)), "empty": ((0, 5), (5,))}
    for name, function in functions.items():
        for label, (shape_a, shape_b) in shapes.items():
            a, b = o.randn(*shape_a), o.randn(*shape_b)
            if name == "div":
                b = b.sign() * (b.abs() + 0.25)
            o.differentiate(f"{name}.{label}", function, {"a": a, "b": b})
    # At a tie PyTorch gives each side half of the gradient.
    tie = {"a": f64([1.0, 2.0, -3.0]), "b": f64([1.0, 2.5, -3.0])}
    o.differentiate("maximum.tie", torch.maximum, tie)
    o.differentiate("minimum.tie", torch.minimum, tie)
    o.differentiate("pow.tensor", torch.pow, {"a": o.uniform(0.25, 3, 4, 5), "b": o.randn(5)})
    for label, exponent in {"square": 2.0, "cube": 3.0, "inverse": -1.0}.items():
        o.differentiate(f"pow.{label}", lambda x, e=exponent: x ** e,
                        {"x": o.uniform(0.25, 3, 3, 5) * o.randn(3, 5).sign()}, exponent=exponent)
    o.differentiate("pow.sqrt", lambda x: x ** 0.5, {"x": o.uniform(0.25, 3, 3, 5)}, exponent=0.5)


def elementwise_unary(o):
    wide = torch.cat([torch.linspace(-12, 12, 97, dtype=torch.float32).double(), o.randn(23)])
    positive = torch.cat([torch.tensor([1e-6, 1e-3, 1e4], dtype=torch.float32).double(),
                          o.uniform(0.01, 9, 61)])
    functions = {"exp": (torch.exp, wide), "log": (torch.log, positive), "sqrt": (torch.sqrt, positive),
                 "rsqrt": (torch.rsqrt, positive), "tanh": (torch.tanh, wide),
                 "sigmoid": (torch.sigmoid, wide), "relu": (torch.relu, wide), "gelu": (F.gelu, wide),
                 "abs": (torch.abs, wide), "neg": (torch.neg, wide)}
    for name, (function, x) in functions.items():
        o.differentiate(f"{name}.values", function, {"x": x})


def comparisons(o):
    a = torch.tensor([[1, 2, 3], [4, 5, -6]], dtype=torch.float32)
    b = torch.tensor([2, 2, 2], dtype=torch.float32)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        o.add(f"{name}.row", a=a, b=b, y=getattr(torch, name)(a, b))
    condition = o.integers(2, 4, 1, 5).bool()
    o.differentiate("where.broadcast", lambda a, b: torch.where(condition, a, b),
                    {"a": o.randn(3, 5), "b": o.randn(4, 3, 1)}, condition=condition)


def casts(o):
    exact = [0.0, -0.0, 1.0, -1.5, 3.14159274, 1e-3, 65504.0, 65520.0, 1e-8, 6e-8, 3e38, -3e38,
             math.inf, -math.inf, 1.00390625, 1.01171875, 2.0 ** -24, 2.0 ** -25]
    x = torch.cat([torch.tensor(exact, dtype=torch.float32), o.randn(46).float()])
    o.add("cast.f32", x=x, bf16=x.to(torch.bfloat16), f16=x.to(torch.float16))


def matrix_products(o):
    sizes = {"small": (3, 4, 5), "odd": (13, 17, 19), "one": (1, 1, 1), "row": (1, 33, 7),
             "block": (40, 65, 33), "empty": (0, 4, 5), "empty_inner": (3, 0, 5)}
    for label, (m, k, n) in sizes.items():
        for ta in (False, True):
            for tb in (False, True):
                a = o.randn(k, m) if ta else o.randn(m, k)
                b = o.randn(n, k) if tb else o.randn(k, n)
                o.differentiate(
                    f"matmul.{'t' if ta else 'n'}{'t' if tb else 'n'}_{label}",
                    lambda a, b, ta=ta, tb=tb: (a.T if ta else a) @ (b.T if tb else b),
                    {"a": a, "b": b})
    for ta in (False, True):
        for tb in (False, True):
            a = o.randn(3, 6, 5) if ta else o.randn(3, 5, 6)
            b = o.randn(3, 4, 6) if tb else o.randn(3, 6, 4)
            o.differentiate(f"matmul.{'t' if ta else 'n'}{'t' if tb else 'n'}_batched",
                            lambda a, b, ta=ta, tb=tb: (a.mT if ta else a) @ (b.mT if tb else b),
                            {"a": a, "b": b})
    for label, (t, i, h) in {"small": (3, 4, 5), "odd": (21, 18, 37), "empty": (0, 4, 5)}.items():
        inputs = {"x": o.randn(t, i), "weight": o.randn(h, i), "bias": o.randn(h)}
        o.differentiate(f"linear.{label}", F.linear, inputs)
        o.differentiate(f"linear_gelu.{label}", lambda x, w, b: F.gelu(F.linear(x, w, b)), inputs)
    o.differentiate("linear.no_bias", F.linear, {"x": o.randn(6, 4), "weight": o.randn(3, 4)})


def reductions(o):
    functions = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}
    for name, function in functions.items():
        for axes in ((0,), (1,), (2,), (-1,), (0, 2), (1, 2), (0, 1, 2)):
            for keepdim in (False, True):
                label = "_".join(str(axis).replace("-", "m") for axis in axes)
                o.differentiate(f"{name}.axes_{label}{'_keepdim' if keepdim else ''}",
                                lambda x, f=function, axes=axes, k=keepdim: f(x, dim=axes, keepdim=k),
                                {"x": o.randn(3, 4, 5)}, axes=i64(axes), keepdim=torch.tensor(keepdim))
    o.differentiate("sum.long", lambda x: x.sum(), {"x": o.randn(3001)})
    for axis in (0, 1, -1):
        x = o.randn(4, 7)
        o.add(f"argmax.axis_{axis}".replace("-", "m"), x=x, axis=i64(axis), y=x.argmax(axis))
    for k in (1, 3, 9):
        x = torch.stack([torch.randperm(9, generator=o.generator) for _ in range(4)]).double() - 4.5
        values, indices = x.topk(k, dim=-1)
        o.add(f"topk.k_{k}", x=x, k=i64(k), values=values, indices=indices)


def normalisations(o):
    for label, shape, scale in (("small", (3, 5), 1.0), ("wide", (4, 67), 3.0), ("one", (3, 1), 1.0),
                                ("three_d", (2, 3, 4), 1.0), ("large", (2, 6), 1e4), ("empty", (0, 5), 1.0)):
        x = o.randn(*shape, scale=scale)
        o.differentiate(f"softmax.{label}", lambda x: F.softmax(x, -1), {"x": x})
        o.differentiate(f"log_softmax.{label}", lambda x: F.log_softmax(x, -1), {"x": x})
    for label, rows, width, eps in (("small", 3, 5, 1e-5), ("bert", 4, 48, 1e-12), ("wide", 3, 257, 1e-5),
                                    ("empty", 0, 5, 1e-5)):
        o.differentiate(f"layer_norm.{label}", lambda x, w, b, eps=eps: F.layer_norm(x, w.shape, w, b, eps),
                        {"x": o.randn(rows, width) * 2 + 0.5, "weight": o.randn(width), "bias": o.randn(width)},
                        eps=eps)
    o.differentiate("residual_layer_norm.small",
                    lambda x, r, w, b: F.layer_norm(x + r, w.shape, w, b, 1e-5),
                    {"x": o.randn(7, 24), "residual": o.randn(7, 24), "weight": o.randn(24),
                     "bias": o.randn(24)}, eps=1e-5)
    for label, x in {"rows": o.randn(4, 9), "zero": o.randn(2, 9) * 0}.items():
        o.differentiate(f"normalize.{label}", lambda x: F.normalize(x, dim=-1, eps=1e-12), {"x": x}, eps=1e-12)


def lookups(o):
    ids = i32([3, 0, 3, 6, 3, 1])
    o.differentiate("embedding.repeated", lambda w: F.embedding(ids, w), {"weight": o.randn(7, 4)}, ids=ids)
    o.differentiate("embedding.empty", lambda w: F.embedding(i32([]), w), {"weight": o.randn(7, 4)},
                    ids=i32([]))
    for axis in (0, 1):
        index = o.integers(5, 4, 6)
        o.differentiate(f"gather.axis_{axis}", lambda x, d=axis, i=index: x.gather(d, i),
                        {"x": o.randn(5, 6)}, index=index, axis=i64(axis))
        o.differentiate(f"scatter_add.axis_{axis}", lambda x, s, d=axis, i=index: x.scatter_add(d, i, s),
                        {"x": o.randn(5, 6), "source": o.randn(4, 6)}, index=index, axis=i64(axis))
        rows = i64([4, 0, 4, 2])
        o.differentiate(f"index_select.axis_{axis}", lambda x, d=axis: x.index_select(d, rows),
                        {"x": o.randn(5, 6)}, index=rows, axis=i64(axis))


def shape_changes(o):
    for axis in (0, 1, 2):
        shapes = [[2, 3, 4], [2, 3, 4], [2, 3, 4]]
        for size, shape in zip((1, 3, 2), shapes):
            shape[axis] = size
        parts = {f"x{i}": o.randn(*shape) for i, shape in enumerate(shapes)}
        o.differentiate(f"concat.axis_{axis}", lambda *p, d=axis: torch.cat(p, d), parts, axis=i64(axis))
        o.differentiate(f"stack.axis_{axis}", lambda *p, d=axis: torch.stack(p, d),
                        {"x0": o.randn(2, 3), "x1": o.randn(2, 3)}, axis=i64(axis))
        shape = [2, 3, 4]
        shape[axis] = 6
        o.differentiate(f"split.axis_{axis}", lambda x, d=axis: torch.split(x, [1, 3, 2], d),
                        {"x": o.randn(*shape)}, axis=i64(axis), sizes=i64([1, 3, 2]))
    for order in ((1, 0, 2), (2, 0, 1), (0, 2, 1), (2, 1, 0)):
        o.differentiate("permute." + "".join(map(str, order)), lambda x, p=order: x.permute(p).contiguous(),
                        {"x": o.randn(2, 3, 4)}, order=i64(order))


def convolutions(o):
    for label, stride, padding in (("plain", 1, 0), ("padded", 1, 1), ("strided", 2, 1)):
        o.differentiate(f"conv2d.{label}",
                        lambda x, w, b, s=stride, p=padding: F.conv2d(x, w, b, stride=s, padding=p),
                        {"x": o.randn(2, 3, 7, 6), "weight": o.randn(4, 3, 3, 3), "bias": o.randn(4)},
                        stride=i64(stride), padding=i64(padding))
    for label, height, width in (("even", 6, 8), ("odd", 5, 7)):
        o.differentiate(f"max_pool2d.{label}", lambda x: F.max_pool2d(x, 2), {"x": o.randn(2, 3, height, width)},
                        kernel=i64(2))


def losses(o):
    labels = i64([2, 0, 1, 2, 2])
    logits = {"x": o.randn(5, 3, scale=2.0)}
    o.differentiate("cross_entropy.mean", lambda x: F.cross_entropy(x, labels), logits, labels=labels)
    o.differentiate("cross_entropy.global_rows", lambda x: F.cross_entropy(x, labels, reduction="sum") / 12,
                    logits, labels=labels, global_rows=i64(12))
    o.differentiate("cross_entropy.large", lambda x: F.cross_entropy(x, labels), {"x": o.randn(5, 3, scale=200.0)},
                    labels=labels)
    o.differentiate("nll_loss.mean", lambda x: F.nll_loss(x, labels),
                    {"x": F.log_softmax(o.randn(5, 3).float(), -1).double()}, labels=labels)
    o.differentiate("mse_loss.mean", lambda a, b: F.mse_loss(a, b), {"a": o.randn(9), "b": o.randn(9)})
    a, b = o.randn(2, 8), o.randn(2, 8)
    a[0], a[1], b[1] = 0, 0, 0
    for label, rows in {"rows": {"a": o.randn(6, 8), "b": o.randn(6, 8)}, "zero": {"a": a, "b": b}}.items():
        o.differentiate(f"cosine_similarity.{label}",
                        lambda a, b: F.cosine_similarity(a, b, dim=-1, eps=1e-8), rows, eps=1e-8)


def pooling(o):
    lengths = (4, 1, 7, 2)
    packed = o.randn(sum(lengths), 6)
    modes = {"mean": lambda h: h.mean(0), "cls": lambda h: h[0], "max": lambda h: h.amax(0)}
    for name, mode in modes.items():
        o.differentiate(f"{name}_pooling.packed",
                        lambda x, f=mode: torch.stack([f(h) for h in split_rows(x, lengths)]),
                        {"x": packed}, cu_seqlens=cu_seqlens(lengths))


def attention(q, k, v, table, lengths, heads):
    """Packed rows (T, heads * d) through softmax(q k' / sqrt(d) + bias) v, a sequence at a time."""
    outputs = []
    for parts in zip(*(split_rows(x, lengths) for x in (q, k, v))):
        qh, kh, vh = (x.view(len(x), heads, -1).transpose(0, 1) for x in parts)  # (heads, L, d)
        scores = qh @ kh.mT / math.sqrt(qh.shape[-1])
        if table is not None:
            position = torch.arange(scores.shape[-1])
            bucket = MPNetEncoder.relative_position_bucket(position[None, :] - position[:, None])
            scores = scores + table[bucket].permute(2, 0, 1)
        outputs.append((scores.softmax(-1) @ vh).transpose(0, 1).reshape(len(parts[0]), -1))
    return torch.cat(outputs)


def attentions(o):
    cases = {"small": ((3, 1, 5), 2, 4), "long": ((1, 150, 17, 64), 2, 8), "head_64": ((9, 33), 1, 64),
             "one": ((1,), 2, 4)}
    for label, (lengths, heads, d) in cases.items():
        rows = {name: o.randn(sum(lengths), heads * d) for name in "qkv"}
        extra = {"cu_seqlens": cu_seqlens(lengths), "heads": i64(heads)}
        o.differentiate(f"attention.{label}", lambda q, k, v, n=lengths, h=heads: attention(q, k, v, None, n, h),
                        rows, **extra)
        o.differentiate(f"attention.{label}_relative",
                        lambda q, k, v, t, n=lengths, h=heads: attention(q, k, v, t, n, h),
                        {**rows, "relative_bias": o.randn(32, heads)}, **extra)
    distance = torch.arange(-600, 601)  # key position - query position
    o.add("relative_position_bucket.mpnet", distance=distance,
          y=MPNetEncoder.relative_position_bucket(distance))


def optimizers(o):
    for label, decay, lr in (("decay", 0.01, 1e-2), ("no_decay", 0.0, 2e-5)):
        start, gradients = o.randn(37), o.randn(5, 37)
        parameter = torch.nn.Parameter(start.clone())
        optimizer = torch.optim.AdamW([parameter], lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=decay)
        steps = run_steps(parameter, optimizer, gradients)
        state = optimizer.state[parameter]
        o.add(f"adamw.{label}", start=start, gradients=gradients, steps=steps, exp_avg=state["exp_avg"],
              exp_avg_sq=state["exp_avg_sq"], lr=lr, weight_decay=decay, beta1=0.9,
              beta2=0.999, eps=1e-8)
    for label, momentum, decay in (("plain", 0.0, 0.0), ("momentum", 0.9, 0.0), ("momentum_decay", 0.9, 0.01)):
        start, gradients = o.randn(37), o.randn(5, 37)
        parameter = torch.nn.Parameter(start.clone())
        optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=momentum, weight_decay=decay)
        o.add(f"sgd.{label}", start=start, gradients=gradients, steps=run_steps(parameter, optimizer, gradients),
              lr=0.1, momentum=momentum, weight_decay=decay)
    for label, max_norm in (("clipped", 1.0), ("kept", 100.0)):
        parameters = [torch.nn.Parameter(o.randn(*shape)) for shape in ((4, 5), (7,), (2, 3, 2))]
        for parameter in parameters:
            parameter.grad = o.randn(*parameter.shape)
        o.add(f"clip_grad_norm.{label}", **{f"gradient{i}": p.grad for i, p in enumerate(parameters)})
        norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        o.add(f"clip_grad_norm.{label}", max_norm=max_norm, total_norm=norm,
              **{f"clipped{i}": p.grad for i, p in enumerate(parameters)})


def run_steps(parameter, optimizer, gradients):
    after = []
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
        after.append(parameter.detach().clone())
    return torch.stack(after)


def schedules(o):
    """`factors[k]` multiplies the learning rate of step k, k counted from 0."""
    total = 20
    for warmup in (0, 2, 7):
        makers = {"linear": lambda opt: get_linear_schedule_with_warmup(opt, warmup, total),
                  "cosine": lambda opt: get_cosine_schedule_with_warmup(opt, warmup, total),
                  "constant": lambda opt: get_constant_schedule_with_warmup(opt, warmup)}
        for name, make in makers.items():
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
            scheduler = make(optimizer)
            factors = []
            for _ in range(total):
                factors.append(scheduler.get_last_lr()[0])
                optimizer.step()
                scheduler.step()
            o.add(f"schedule.{name}_warmup_{warmup}", warmup_steps=i64(warmup), total_steps=i64(total),
                  factors=factors)


def powers_and_padding(o):
    """Behind all others, whose random numbers they leave as they are."""
    o.differentiate("square.values", torch.square, {"x": o.randn(4, 30)})
    o.differentiate("reciprocal.values", torch.reciprocal, {"x": o.uniform(0.01, 9, 61)})
    # 0^0 is 1, with gradient 0.
    o.differentiate("pow.zero", lambda x: x ** 0.0, {"x": f64([0.0, -1.5, 2.0])}, exponent=0.0)
    for axis, pads in {0: (0, 0, 1, 2), 1: (1, 2)}.items():
        o.differentiate(f"pad.axis_{axis}", lambda x, p=pads: F.pad(x, p), {"x": o.randn(3, 4)},
                        axis=i64(axis))


def research_ops(o):
    """Behind all others, like powers_and_padding: ops, losses and layers of decoders."""
    wide = torch.cat([torch.linspace(-12, 12, 49, dtype=torch.float32).double(), o.randn(11, scale=1e4)])
    for name, function, x in (("sin", torch.sin, wide), ("cos", torch.cos, wide), ("silu", F.silu, o.randn(60, scale=5.0)),
                              ("log1p", torch.log1p, torch.cat([o.uniform(-0.9, 9, 40), o.randn(20, scale=1e-5)]))):
        o.differentiate(f"{name}.values", function, {"x": x})
    for label, (low, high) in {"both": (-0.5, 0.75), "low": (0.25, math.inf), "high": (-math.inf, -0.25)}.items():
        x = torch.cat([o.randn(20), f64([-0.5, 0.75, 0.25, -0.25])])
        o.differentiate(f"clamp.{label}", lambda x: x.clamp(low, high), {"x": x}, low=low, high=high)
    mask = o.integers(2, 4, 5).bool()
    o.differentiate("masked_fill.value", lambda x: x.masked_fill(mask, -2.5), {"x": o.randn(3, 4, 5)}, mask=mask,
                    value=-2.5)
    functions = {"logsumexp": lambda x, axes, k: x.logsumexp(axes, k), "var": lambda x, axes, k: x.var(axes, keepdim=k),
                 "std": lambda x, axes, k: x.std(axes, correction=0, keepdim=k)}
    for name, function in functions.items():
        for axes in ((-1,), (0, 2), (0, 1, 2)):
            for keepdim in (False, True):
                label = "_".join(str(axis).replace("-", "m") for axis in axes)
                o.differentiate(f"{name}.axes_{label}{'_keepdim' if keepdim else ''}",
                                lambda x: function(x, axes, keepdim), {"x": o.randn(3, 4, 5, scale=3.0)}, axes=i64(axes),
                                keepdim=torch.tensor(keepdim))
    for axis in (0, 1, 2):
        o.differentiate(f"cumsum.axis_{axis}", lambda x: x.cumsum(axis), {"x": o.randn(3, 7, 5)}, axis=i64(axis))
        for descending in (False, True):
            x = (o.randn(3, 9, 5) * 2).round() / 2  # with ties
            values, indices = x.sort(dim=axis, descending=descending, stable=True)
            label = f"sort.axis_{axis}{'_descending' if descending else ''}"
            o.differentiate(label, lambda x: x.gather(axis, indices), {"x": x}, axis=i64(axis),
                            descending=torch.tensor(descending), indices=indices)
            assert torch.equal(values.float(), o.tensors[label + "/y"])
    for diagonal in (-2, 0, 1):
        for name, function in (("tril", torch.tril), ("triu", torch.triu)):
            o.differentiate(f"{name}.{diagonal}", lambda x: function(x, diagonal), {"x": o.randn(2, 4, 5)},
                            diagonal=i64(diagonal))
    ids = o.integers(6, 3, 4)
    o.add("one_hot.ids", ids=ids, y=F.one_hot(ids, 6), classes=i64(6))


def research_layers(o):
    labels = i64([2, 0, -100, 1, 2, -100])
    for label, ignored, smoothing in (("ignored", -100, 0.0), ("smoothed", -100, 0.1), ("other", 2, 0.3)):
        of = labels if ignored < 0 else labels.clamp(0)
        o.differentiate(f"cross_entropy_options.{label}",
                        lambda x: F.cross_entropy(x, of, ignore_index=ignored, label_smoothing=smoothing),
                        {"x": o.randn(6, 3, scale=3.0)}, labels=of, ignore_index=i64(ignored), label_smoothing=smoothing)
    logits = torch.cat([o.randn(30, scale=4.0), f64([0.0, -200.0, 200.0])])
    o.differentiate("binary_cross_entropy_with_logits.mean", F.binary_cross_entropy_with_logits,
                    {"x": logits, "targets": o.uniform(0, 1, 33)})
    rows = {name: F.log_softmax(o.randn(5, 7).float(), -1).double() for name in ("x", "target")}
    o.differentiate("kl_div.rows", lambda x, t: F.kl_div(x, t, reduction="batchmean", log_target=True), rows)
    o.differentiate("rms_norm.rows", lambda x, w: F.rms_norm(x, w.shape, w, 1e-6),
                    {"x": o.randn(2, 5, 24), "weight": o.randn(24)}, eps=1e-6)
    mask = torch.eye(5, 7).bool() | o.integers(2, 2, 1, 5, 7).bool()
    for label, causal, of in (("all", False, None), ("causal", True, None), ("mask", False, mask)):
        o.differentiate(f"scaled_dot_product_attention.{label}",
                        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=of, is_causal=causal),
                        {"q": o.randn(2, 3, 5, 8), "k": o.randn(2, 3, 7, 8), "v": o.randn(2, 3, 7, 4)},
                        causal=torch.tensor(causal), **({} if of is None else {"mask": of}))
    rates = 1 / 10000 ** (torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    angles = torch.outer(torch.arange(9, dtype=torch.float64), rates).repeat(1, 2)
    o.differentiate("rotary_embedding.llama", lambda x: apply_rotary_pos_emb(x, x, angles.cos()[None], angles.sin()[None])[0],
                    {"x": o.randn(2, 2, 9, 8)})


def main():
    o = Oracle(seed=1)
    for family in (elementwise_binary, elementwise_unary, comparisons, casts, matrix_products, reductions,
                   normalisations, lookups, shape_changes, convolutions, losses, pooling, attentions,
                   optimizers, schedules, powers_and_padding, research_ops, research_layers):
        family(o)
    o.save("ops.safetensors")


if __name__ == "__main__":
    main()
