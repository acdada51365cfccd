"""PyTorch's collectives by ringlet and by gloo, in turn: all-reduces of f32, and a DDP step of MiniLM's shape.

    torchrun --nproc-per-node 2 bench/torch_collectives.py [--rounds 15] [--json FILE]

A figure is the median, and the least, over the rounds of the mean time of a call, of the slowest rank.
"""
import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist

import ringlet.torch  # noqa: F401

SIZES = [4 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20]
BACKENDS = ["gloo", "ringlet"]


def timed(group, call, seconds):
    """Seconds per call of the slowest rank. All ranks make as many calls as rank 0 would in `seconds`."""
    dist.barrier(group=group)
    start = time.perf_counter()
    call()
    count = torch.tensor([max(1, round(seconds / (time.perf_counter() - start)))])
    dist.broadcast(count, 0, group=group)
    dist.barrier(group=group)
    start = time.perf_counter()
    for _ in range(int(count)):
        call()
    spent = torch.tensor([(time.perf_counter() - start) / int(count)], dtype=torch.float64)
    dist.all_reduce(spent, op=dist.ReduceOp.MAX, group=group)
    return spent.item()


def interleaved(groups, calls, rounds, seconds):
    """Each backend's median and least: every round measures both."""
    times = {backend: [] for backend in BACKENDS}
    for _ in range(rounds):
        for backend in BACKENDS:
            times[backend].append(timed(groups[backend], calls[backend], seconds))
    return {backend: {"median": statistics.median(each), "least": min(each)} for backend, each in times.items()}


class Encoder(torch.nn.Module):
    """MiniLM-L6's layers and sizes, with a mean over the tokens."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embedding = torch.nn.Embedding(30522, 384)
        layer = torch.nn.TransformerEncoderLayer(384, 12, 1536, dropout=0, activation="gelu", batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)

    def forward(self, tokens):
        return self.layers(self.embedding(tokens)).mean(1)


def ddp_step(group):
    module = torch.nn.parallel.DistributedDataParallel(Encoder(), process_group=group)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-5)
    tokens = torch.randint(0, 30522, (8, 32), generator=torch.Generator().manual_seed(dist.get_rank()))

    def step():
        module(tokens).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.1, help="per backend and round")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    dist.init_process_group("ringlet")
    torch.set_num_threads(1)
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    results = {"torch": torch.__version__, "ranks": dist.get_world_size(), "all_reduce": {}}
    rank0 = dist.get_rank() == 0

    def report(name, times):
        if rank0:
            columns = [f"{backend} {1e6 * times[backend]['median']:10.1f} us, least {1e6 * times[backend]['least']:10.1f}"
                       for backend in BACKENDS]
            ratio = times["gloo"]["median"] / times["ringlet"]["median"]
            print(f"{name:>10} | {' | '.join(columns)} | {ratio:6.2f} times", flush=True)
        return times

    for size in SIZES:
        tensor = torch.ones(size // 4)
        calls = {backend: (lambda group=group: dist.all_reduce(tensor, group=group))
                 for backend, group in groups.items()}
        times = interleaved(groups, calls, arguments.rounds, arguments.seconds)
        results["all_reduce"][size] = report(f"{size >> 10} KiB", times)
    steps = {backend: ddp_step(group) for backend, group in groups.items()}
    results["ddp_step"] = report("DDP step", interleaved(groups, steps, arguments.rounds, 4 * arguments.seconds))
    if rank0 and arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
