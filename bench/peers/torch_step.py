"""A plain PyTorch training step of a sentence encoder, timed: SoftmaxLoss, dropout 0.1, AdamW, clip 1.0.

Runs under PyTorch 1.13 and later without other packages. Each column is padded to its longest row and goes
through the encoder on its own, as Sentence Transformers does. usage: torch_step.py --model mpnet-base --steps 3
"""

import argparse
import inspect
import json
import os
import statistics
import time

import torch

from encoder import SIZES, Config, Encoder, SoftmaxLoss
from lengths import Lengths, token_counts

PHASES = ("forward", "backward", "optimizer", "processor")  # processor time beside wall time shows a shared core


def parse(description, **options):
    """The options of every training peer; `options` are those of one alone: name=(choices, default)."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    for name, (choices, default) in options.items():
        parser.add_argument(f"--{name}", choices=choices, default=default)
    parser.add_argument("--model", choices=sorted(SIZES), default="mpnet-base")
    parser.add_argument("--batch", type=int, default=32, help="pairs per device and step")
    parser.add_argument("--steps", type=int, default=5, help="timed steps")
    parser.add_argument("--warmup", type=int, default=1, help="steps before, not timed")
    parser.add_argument("--device", default="cpu", help="cpu, cuda (under torchrun a GPU per rank) or cuda:1")
    parser.add_argument("--threads", type=int, default=1, help="of each device that is a CPU")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="bf16 is autocast")
    parser.add_argument("--compile", action="store_true", help="the encoder by torch.compile, for all lengths")
    parser.add_argument("--histogram", metavar="FILE", help="of the lengths of pairs (default: SNLI's)")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def use_device(arguments):
    """The torch.device, which must be there; under torchrun `cuda` is the GPU of the local rank."""
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no CUDA device")
        raise SystemExit(2)
    if arguments.device == "cuda" and "LOCAL_RANK" in os.environ:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        if device.index >= torch.cuda.device_count():
            raise SystemExit(f"--device cuda: of {torch.cuda.device_count()} GPU(s) none is left for local rank "
                             f"{device.index}")
    if device.index is not None:
        torch.cuda.set_device(device)  # whose stream time_on() means
    if device.type == "cpu":
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    return device


def padded(column, vocabulary, generator):
    """Random ids (B, L) of these lengths and their mask."""
    ids = torch.randint(1000, vocabulary - 1, (len(column), max(column)), generator=generator)
    mask = (torch.arange(max(column))[None] < torch.tensor(column)[:, None]).long()
    return torch.where(mask.bool(), ids, torch.ones_like(ids)), mask


def make_optimizer(module):
    decayed = [p for n, p in module.named_parameters() if "bias" not in n and "LayerNorm" not in n]
    others = [p for n, p in module.named_parameters() if "bias" in n or "LayerNorm" in n]
    # Fused over the parameters if this PyTorch supports it on the CPU, as the Trainer of
    # transformers requests.
    fused = {"fused": True} if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4) else {}
    assert not fused or "fused" in inspect.signature(torch.optim.AdamW).parameters
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}],
                             lr=2e-5, eps=1e-8, **fused)


def time_on(device):
    """Now; on CUDA when the device is done with what it was given."""
    if device.type == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def milliseconds(begin, end):
    if isinstance(begin, float):
        return 1e3 * (end - begin)
    end.synchronize()
    return begin.elapsed_time(end)


class Step:
    """A training step, given to the device; `milliseconds()` waits for it: forward, backward, optimizer, and all
    three in processor time."""

    def __init__(self, loss, optimizer, columns, labels, device, bf16, parameters):
        processor = time.process_time()
        self.times = [time_on(device)]
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16):
            value = loss(columns, labels.to(device, non_blocking=True))
        self.times.append(time_on(device))
        value.backward()
        self.times.append(time_on(device))
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        self.times.append(time_on(device))
        self.processor = time.process_time() - processor
        self.loss = value.detach()

    def milliseconds(self):
        return [milliseconds(*two) for two in zip(self.times, self.times[1:])] + [1e3 * self.processor]


def run_steps(arguments, module, loss, make_batch, device, rank=0, ranks=1):
    """(milliseconds of each timed step, their tokens on all ranks). Rank r of n takes batch step * n + r: make_batch()
    turns its lengths into loss()'s columns and labels."""
    optimizer, lengths = make_optimizer(module), Lengths(arguments.histogram)
    steps, tokens = [], [0, 0]
    for number in range(arguments.warmup + arguments.steps):
        batches = [lengths.batch(number * ranks + each, arguments.batch) for each in range(ranks)]
        steps.append(Step(loss, optimizer, *make_batch(batches[rank]), device, arguments.dtype == "bf16",
                          module.parameters()))
        if number >= arguments.warmup:
            tokens = [sum(counts) for counts in zip(tokens, *map(token_counts, batches))]
    phases = [step.milliseconds() for step in steps[arguments.warmup:]]
    for number, (step, times) in enumerate(zip(steps[arguments.warmup:], phases), arguments.warmup):
        print(f"  step {number}: {sum(times[:-1]):.1f} ms, loss {step.loss.item():.4f}", flush=True)
    return phases, tokens


def where(arguments):
    if arguments.device.startswith("cuda"):
        return torch.cuda.get_device_name(torch.device(arguments.device))
    return f"{arguments.threads} threads"


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
           "peak_device_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0,
           "real_tokens_per_s": tokens[0] / seconds, "padded_tokens_per_s": tokens[1] / seconds,
           "step_ms": {"median": median, "min": min(totals), "max": max(totals),
                       **{phase: statistics.median(step[i] for step in phases) for i, phase in enumerate(names)}},
           "steps_ms": totals}
    print(f"{name} {arguments.model} {arguments.dtype} {strategy}, {devices} x {where(arguments)}: "
          f"{row['pairs_per_s']:.3f} pairs/s, "
          f"step {median:.1f} ms ({min(totals):.1f}-{max(totals):.1f}), "
          + ", ".join(f"{phase} {row['step_ms'][phase]:.1f}" for phase in names)
          + f" ms, {100 * tokens[0] / tokens[1]:.0f}% real tokens")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"program": name, "model": arguments.model, "batch": arguments.batch,
                       "device": where(arguments), "rows": [row]}, out, indent=1)


def main():
    arguments = parse(__doc__, attention=(("eager", "sdpa"), "eager"))
    device = use_device(arguments)
    kind, vocabulary, hidden, *rest = SIZES[arguments.model]
    config = Config(kind, vocabulary, hidden, *rest, attention=arguments.attention)
    encoder = Encoder(config).to(device)
    if arguments.compile:
        encoder = torch.compile(encoder, dynamic=True)
    loss = SoftmaxLoss(encoder, hidden).to(device).train()
    generator = torch.Generator().manual_seed(1)

    def make_batch(columns):
        return ([padded(column, vocabulary, generator) for column in columns],
                torch.randint(3, (arguments.batch,), generator=generator))

    def on_device(columns, labels):
        return loss([[part.to(device, non_blocking=True) for part in column] for column in columns], labels)

    report(arguments, *run_steps(arguments, loss, on_device, make_batch, device),
           f"PyTorch {torch.__version__} ({arguments.attention})")


if __name__ == "__main__":
    main()
