"""A plain PyTorch training step of a sentence encoder, timed: SoftmaxLoss, dropout 0.1, AdamW, clip 1.0.

Runs under PyTorch 1.13 and later without other packages. Each column is padded to its longest row and goes
through the encoder on its own, as Sentence Transformers does. usage: torch_step.py --model mpnet-base --steps 3
"""

import argparse
import inspect
import json
import statistics
import time

import torch

from encoder import SIZES, Config, Encoder, SoftmaxLoss
from lengths import Lengths, token_counts

PHASES = ("forward", "backward", "optimizer", "processor")  # processor time beside wall time shows a shared core


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(SIZES), default="mpnet-base")
    parser.add_argument("--batch", type=int, default=32, help="pairs per step")
    parser.add_argument("--steps", type=int, default=5, help="timed steps")
    parser.add_argument("--warmup", type=int, default=1, help="steps before, not timed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="bf16 is autocast")
    parser.add_argument("--attention", choices=("eager", "sdpa"), default="eager")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def padded(column, vocabulary, generator):
    """Random ids (B, L) of these lengths and their mask."""
    ids = torch.randint(1000, vocabulary - 1, (len(column), max(column)), generator=generator)
    mask = (torch.arange(max(column))[None] < torch.tensor(column)[:, None]).long()
    return torch.where(mask.bool(), ids, torch.ones_like(ids)), mask


def make_optimizer(module):
    decayed = [p for n, p in module.named_parameters() if "bias" not in n and "LayerNorm" not in n]
    others = [p for n, p in module.named_parameters() if "bias" in n or "LayerNorm" in n]
    # One pass over the parameters where this PyTorch has it for the CPU, as the Trainer of transformers asks.
    fused = {"fused": True} if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4) else {}
    assert not fused or "fused" in inspect.signature(torch.optim.AdamW).parameters
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}],
                             lr=2e-5, eps=1e-8, **fused)


def train_step(loss, optimizer, columns, labels, bf16, parameters):
    """Milliseconds of (forward, backward, optimizer, all three in processor time) and the loss."""
    processor = time.process_time()
    times = [time.perf_counter()]
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        value = loss(columns, labels)
    times.append(time.perf_counter())
    value.backward()
    times.append(time.perf_counter())
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    times.append(time.perf_counter())
    spent = [b - a for a, b in zip(times, times[1:])] + [time.process_time() - processor]
    return [1e3 * seconds for seconds in spent], value.item()


def peak_memory_bytes():
    for line in open("/proc/self/status", encoding="ascii"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def report(arguments, phases, tokens, name, names=PHASES, strategy="none", devices=1):
    """Prints a line and writes the figures as bench/throughput does: rows of one strategy.

    A step's phases are milliseconds, called `names`; the last is processor time, the others add up to the step.
    `tokens` (real, padded) are those of all devices in all these steps.
    """
    totals = [sum(step[:-1]) for step in phases]
    median = statistics.median(totals)
    seconds = sum(totals) / 1e3
    row = {"strategy": strategy, "devices": devices, "dtype": arguments.dtype,
           "pairs_per_s": 1e3 * arguments.batch * devices / median,
           "peak_memory_bytes": peak_memory_bytes(),
           "real_tokens_per_s": tokens[0] / seconds, "padded_tokens_per_s": tokens[1] / seconds,
           "step_ms": {"median": median, "min": min(totals), "max": max(totals),
                       **{phase: statistics.median(step[i] for step in phases) for i, phase in enumerate(names)}},
           "steps_ms": totals}
    print(f"{name} {arguments.model} {arguments.dtype} {strategy}, {devices} x {arguments.threads} threads: "
          f"{row['pairs_per_s']:.3f} pairs/s, "
          f"step {median:.0f} ms ({min(totals):.0f}-{max(totals):.0f}), "
          + ", ".join(f"{phase} {row['step_ms'][phase]:.0f}" for phase in names)
          + f" ms, {100 * tokens[0] / tokens[1]:.0f}% real tokens, "
          f"peak {row['peak_memory_bytes'] / 2**20:.0f} MiB")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"program": name, "model": arguments.model, "batch": arguments.batch,
                       "threads": arguments.threads, "rows": [row]}, out, indent=1)


def main():
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    kind, vocabulary, hidden, *rest = SIZES[arguments.model]
    config = Config(kind, vocabulary, hidden, *rest, attention=arguments.attention)
    loss = SoftmaxLoss(Encoder(config), hidden).train()
    optimizer = make_optimizer(loss)
    lengths = Lengths()
    generator = torch.Generator().manual_seed(1)
    phases, tokens = [], [0, 0]
    for step in range(arguments.warmup + arguments.steps):
        columns = lengths.batch(step, arguments.batch)
        batch = [padded(column, vocabulary, generator) for column in columns]
        labels = torch.randint(3, (arguments.batch,), generator=generator)
        times, value = train_step(loss, optimizer, batch, labels, arguments.dtype == "bf16",
                                  loss.parameters())
        if step < arguments.warmup:
            continue
        phases.append(times)
        tokens = [a + b for a, b in zip(tokens, token_counts(columns))]
        print(f"  step {step}: {sum(times[:3]):.0f} ms, loss {value:.4f}", flush=True)
    report(arguments, phases, tokens, f"PyTorch {torch.__version__} ({arguments.attention})")


if __name__ == "__main__":
    main()
