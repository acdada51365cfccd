"""Runs ringlet's strategies and Sentence Transformers' own in turn on the same cores and prints the ratios.

usage: python bench/peers/compare_strategies.py --python PYTHON --throughput build/bench/throughput \\
           --model minilm-l6 --devices 2
PYTHON has sentence-transformers, datasets and accelerate (default: the one that runs this). Theirs: `none` and `ddp`
are its Trainer (sentence_transformers_trainer.py); `fsdp` is its model and loss sharded by PyTorch's fully_shard
(sentence_transformers_step.py). Both over gloo, a process per device. Standard library only.
"""

import argparse
import statistics
import sys

from compare_throughput import HERE, run, spread, write_json

SCRIPTS = {"none": "sentence_transformers_trainer.py", "ddp": "sentence_transformers_trainer.py",
           "fsdp": "sentence_transformers_step.py"}
SIDES = ("ringlet", "Sentence Transformers")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--throughput", required=True, metavar="PROGRAM", help="a built bench/throughput")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--strategies", nargs="+", choices=tuple(SCRIPTS), default=list(SCRIPTS))
    parser.add_argument("--devices", type=int, default=2, help="of ddp and fsdp")
    parser.add_argument("--model", default="minilm-l6", help="mpnet-base, bert-base, minilm-l6 or tiny")
    parser.add_argument("--batch", type=int, default=32, help="pairs per device and step")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--warmup", type=int, default=1, help="steps that are not timed")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of each device")
    parser.add_argument("--cores", help="for taskset, such as 0,1 (default: the first devices x threads)")
    parser.add_argument("--deadline", type=int, default=3600, metavar="SECONDS", help="of each run")
    parser.add_argument("--json", metavar="FILE")
    parser.set_defaults(device="cpu")
    return parser.parse_args()


def commands(arguments, strategy):
    """(command, environment) of either side."""
    same = ["--strategy", strategy, "--model", arguments.model, "--batch", str(arguments.batch),
            "--dtype", arguments.dtype]
    ours = [arguments.throughput, *same, "--rounds", "1", "--threads-per-device", str(arguments.threads),
            "--devices", str(devices(arguments, strategy))]
    launcher = [] if strategy == "none" else [
        "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(arguments.devices)]
    theirs = [arguments.python, *launcher, str(HERE / SCRIPTS[strategy]), *same, "--threads", str(arguments.threads)]
    threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    return {SIDES[0]: (ours, {}), SIDES[1]: (theirs, threads)}


def devices(arguments, strategy):
    return 1 if strategy == "none" else arguments.devices


def measure(arguments, cores):
    """{strategy: {side: {"pairs_per_s": [a run each], "peak_memory_bytes": [...]}}}"""
    runs = {strategy: {side: {"pairs_per_s": [], "peak_memory_bytes": []} for side in SIDES}
            for strategy in arguments.strategies}
    for number in range(arguments.rounds):
        for strategy in arguments.strategies:
            for side, (command, environment) in commands(arguments, strategy).items():
                row = run(f"{side} {strategy}", command, environment, arguments, cores)
                if row is None:
                    sys.exit(1)
                for figure, values in runs[strategy][side].items():
                    values.append(row[figure])
                print(f"round {number + 1}/{arguments.rounds} {strategy}, {side}: {row['pairs_per_s']:.3f} pairs/s, "
                      f"{row['peak_memory_bytes'] / 2**20:.0f} MiB", flush=True)
    return runs


def median(sides, side):
    return statistics.median(sides[side]["pairs_per_s"])


def print_table(arguments, runs, cores):
    print(f"\n{arguments.model} {arguments.dtype}, batch {arguments.batch} a device, {arguments.threads} thread(s) a "
          f"device on core(s) {cores}, {arguments.rounds} rounds of {arguments.steps} steps: median (min-max)\n")
    print("| strategy | devices | ringlet pairs/s | Sentence Transformers pairs/s | ringlet is faster by "
          "| speed-up of ringlet | of theirs | peak MiB of a process, ringlet | theirs |\n" + "|---" * 9 + "|")
    for strategy, sides in runs.items():
        ours, theirs = (sides[side]["pairs_per_s"] for side in SIDES)
        ratio = spread([a / b for a, b in zip(ours, theirs)], 2)
        ups = [f"{median(sides, side) / median(runs['none'], side):.2f}" if "none" in runs else "-" for side in SIDES]
        peaks = [f"{max(sides[side]['peak_memory_bytes']) / 2**20:.0f}" for side in SIDES]
        print("| " + " | ".join([strategy, str(devices(arguments, strategy)), spread(ours, 3), spread(theirs, 3),
                                 ratio + "x", *ups, *peaks]) + " |")


def main():
    arguments = parse()
    cores = arguments.cores or ",".join(str(core) for core in range(arguments.devices * arguments.threads))
    runs = measure(arguments, cores)
    print_table(arguments, runs, cores)
    write_json(arguments, cores, runs)


if __name__ == "__main__":
    main()
