"""PyTorch's attention alone, forward and backward by each of its backends: microseconds, as JSON.

usage: python bench/peers/attention.py --device cuda --json FILE
Sentences are all of one length, so that nothing is padded; `bias` is one learned value for each head and place,
(heads, L, L), which is what its fused op takes for a relative bias; its gradient is computed, too. What a backend
does not do is null. `kernels --length L --filter=attention` measures ours.
"""

import argparse
import json
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_step import milliseconds, time_on, use_device

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
            "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}
ROUNDS = 5


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="bf16")
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--lengths", type=int, nargs="+", default=[25, 384])
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--head-size", type=int, default=64)
    parser.add_argument("--dropout", type=float, nargs="+", default=[0.0, 0.1])
    parser.add_argument("--repeats", type=int, default=50, help="of a round, one behind the other")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def ahead(device):
    """Work for the device, so that it does not wait for the host while it is timed."""
    if device.type == "cuda":
        torch.cuda._sleep(20_000_000)


def timed(device, repeats, run):
    """Microseconds of one run, the median of rounds."""
    run()
    rounds = []
    for _ in range(ROUNDS):
        ahead(device)
        begin = time_on(device)
        for _ in range(repeats):
            run()
        rounds.append(1e3 * milliseconds(begin, time_on(device)) / repeats)
    return statistics.median(rounds)


def measure(arguments, device, backend, length, dropout, with_bias):
    dtype = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
    shape = (arguments.sentences, arguments.heads, length, arguments.head_size)
    q, k, v = (torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for _ in range(3))
    bias = torch.randn(1, *shape[1:3], length, device=device, dtype=dtype, requires_grad=True) if with_bias else None
    inputs = [q, k, v] + ([bias] if with_bias else [])

    def forward():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)

    with sdpa_kernel(backend):
        try:
            out = forward()
            grad = torch.randn_like(out)
            torch.autograd.grad(out, inputs, grad, retain_graph=True)
            return {"forward_us": timed(device, arguments.repeats, forward),
                    "backward_us": timed(device, arguments.repeats,
                                         lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True))}
        except RuntimeError as error:
            return {"forward_us": None, "backward_us": None, "why": str(error).splitlines()[0]}


def main():
    arguments = parse()
    device = use_device(arguments)
    rows = []
    for length in arguments.lengths:
        for with_bias in (False, True):
            for dropout in arguments.dropout:
                for name, backend in BACKENDS.items():
                    row = {"backend": name, "sentences": arguments.sentences, "length": length, "bias": with_bias,
                           "dropout": dropout, **measure(arguments, device, backend, length, dropout, with_bias)}
                    rows.append(row)
                    print(json.dumps(row), flush=True)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"program": f"PyTorch {torch.__version__}", "dtype": arguments.dtype, "rows": rows}, out, indent=1)


if __name__ == "__main__":
    main()
