"""PyTorch's attention alone, forward and backward by each of its backends: microseconds, as JSON.

usage: python bench/peers/attention.py --device cuda --json FILE
Sentences are all of one length, so that nothing is padded; `bias` is one learned value for each head and place,
(heads, L, L), which is what its fused op takes for a relative bias; its gradient is computed, too. What a backend
does not do is null. `kernels --length L --filter=attention` measures ours.
"""

import argparse
import itertools
import json
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_step import milliseconds, time_on, use_device

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
            "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}
ROUNDS, REPEATS = 5, 50
SENTENCES, HEADS, HEAD_SIZE = 64, 12, 64


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="bf16")
    parser.add_argument("--lengths", type=int, nargs="+", default=[25, 384])
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def timed(device, run):
    """Microseconds of one run, the median of rounds."""
    run()
    rounds = []
    for _ in range(ROUNDS):
        if device.type == "cuda":
            torch.cuda._sleep(20_000_000)  # so that the device does not wait for the host while it is timed
        begin = time_on(device)
        for _ in range(REPEATS):
            run()
        rounds.append(1e3 * milliseconds(begin, time_on(device)) / REPEATS)
    return statistics.median(rounds)


def measure(arguments, device, backend, length, dropout, with_bias):
    dtype = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
    shape = (SENTENCES, HEADS, length, HEAD_SIZE)
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
            return {"forward_us": timed(device, forward),
                    "backward_us": timed(device, lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True))}
        except RuntimeError as error:
            return {"forward_us": None, "backward_us": None, "why": str(error).splitlines()[0]}


def main():
    arguments = parse()
    device = use_device(arguments)
    rows = []
    for length, with_bias, dropout in itertools.product(arguments.lengths, (False, True), (0.0, 0.1)):
        for name, backend in BACKENDS.items():
            rows.append({"backend": name, "sentences": SENTENCES, "length": length, "bias": with_bias,
                         "dropout": dropout, **measure(arguments, device, backend, length, dropout, with_bias)})
            print(json.dumps(rows[-1]), flush=True)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"program": f"PyTorch {torch.__version__}", "dtype": arguments.dtype, "rows": rows}, out, indent=1)


if __name__ == "__main__":
    main()
