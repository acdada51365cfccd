"""Runs ringlet's strategies and Sentence Transformers' own in turn on the same cores, or the same GPUs, and prints the
ratios.

usage: python bench/peers/compare_strategies.py --python PYTHON --throughput build/bench/throughput \\
           --model minilm-l6 --devices 2
PYTHON has sentence-transformers, datasets and accelerate (default: the one that runs this). Theirs: `none`, `ddp`
and, on GPUs, `dp` are its Trainer (sentence_transformers_trainer.py); `fsdp` is its model and loss sharded by PyTorch's
fully_shard (sentence_transformers_step.py). A process per device, over gloo, on GPUs over nccl; one for all of dp.
The GPUs are the first of those that CUDA_VISIBLE_DEVICES leaves. Standard library only.
"""

import argparse
import os
import statistics
import sys

from compare_throughput import HERE, more_steps, run, spread, write_json

SCRIPTS = {"none": "sentence_transformers_trainer.py", "dp": "sentence_transformers_trainer.py",
           "ddp": "sentence_transformers_trainer.py", "fsdp": "sentence_transformers_step.py"}
SIDES = ("ringlet", "Sentence Transformers")

# Options of our communication and of how we launch steps.
FORWARDED = ("--transport", "--algorithm", "--step-graphs")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--throughput", required=True, metavar="PROGRAM", help="a built bench/throughput")
    parser.add_argument("--launcher", metavar="PROGRAM", help="a built ringlet: of ours, too, each device of ddp and "
                        "fsdp is a process (default: on GPUs a thread of one)")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--strategies", nargs="+", choices=tuple(SCRIPTS),
                        help="default: all of them, dp on GPUs alone, of one device none alone")
    parser.add_argument("--devices", type=int, default=2, help="of each strategy but none")
    parser.add_argument("--model", default="minilm-l6", help="mpnet-base, bert-base, minilm-l6 or tiny")
    parser.add_argument("--batch", type=int, default=32, help="pairs per device and step")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--warmup", type=int, help="steps that are not timed (default: 1, on GPUs 10; ours has 5 "
                        "times as many steps there)")
    parser.add_argument("--steps", type=int, help="default: 3, on GPUs 40")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of each device that is a CPU")
    parser.add_argument("--cores", help="for taskset, such as 0,1 (default: the first devices x threads)")
    for option in FORWARDED:
        parser.add_argument(option, help="of ours, as throughput has it")
    parser.add_argument("--deadline", type=int, default=3600, metavar="SECONDS", help="of each run")
    parser.add_argument("--json", metavar="FILE")
    return completed(parser.parse_args())


def completed(arguments):
    """With the defaults that depend on other options."""
    on_cpu = arguments.device == "cpu"
    if arguments.warmup is None:
        arguments.warmup = 1 if on_cpu else 10
    if arguments.steps is None:
        arguments.steps = 3 if on_cpu else 40
    if arguments.strategies is None:
        there = [strategy for strategy in SCRIPTS if strategy != "dp" or not on_cpu]
        arguments.strategies = there if arguments.devices > 1 else ["none"]
    if on_cpu and "dp" in arguments.strategies:
        sys.exit("--strategies dp: theirs is nn.DataParallel, which is for GPUs: --device cuda")
    return arguments


def forwarded(arguments):
    values = {option: getattr(arguments, option[2:].replace("-", "_")) for option in FORWARDED}
    return [word for option, value in values.items() if value is not None for word in (option, value)]


def commands(arguments, strategy):
    """(command, environment) of either side."""
    count = devices(arguments, strategy)
    same = ["--strategy", strategy, "--model", arguments.model, "--batch", str(arguments.batch),
            "--dtype", arguments.dtype]
    ours = [arguments.throughput, *same, "--rounds", "1", "--devices", str(count), *forwarded(arguments)]
    theirs = [str(HERE / SCRIPTS[strategy]), *same]
    if strategy not in ("none", "dp"):
        launched = ["--nproc-per-node", str(count)]
        theirs = ["-m", "torch.distributed.run", "--standalone", *launched, *theirs]
        if arguments.launcher:
            ours = [arguments.launcher, "run", *launched, *ours]
    theirs = [arguments.python, *theirs]
    if arguments.device != "cpu":
        there = ["--device", arguments.device]
        # One GPU per rank: the Trainer of one process uses all visible ones.
        seen = {"CUDA_VISIBLE_DEVICES": ",".join(gpus(count))}
        return {SIDES[0]: (ours + there + ["--idle-steps", "0"], seen), SIDES[1]: (theirs + there, seen)}
    threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    return {SIDES[0]: ([*ours, "--threads-per-device", str(arguments.threads)], {}),
            SIDES[1]: ([*theirs, "--threads", str(arguments.threads)], threads)}


def gpus(count):
    """The first `count` that are visible here, by the names that they have."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [str(i) for i in range(count)] if named is None else named.split(",")[:count]


def devices(arguments, strategy):
    return 1 if strategy == "none" else arguments.devices


def figures(arguments, row):
    """Those that are kept; a GPU's memory has another name on either side."""
    kept = {name: row[name] for name in ("pairs_per_s", "peak_memory_bytes")}
    if arguments.device != "cpu":
        kept["peak_device_bytes"] = row["peak_device_bytes" if "peak_device_bytes" in row else "peak_tensor_bytes"]
        if "a_step" in row:  # of ours: the share of its steps that were graphs
            kept["replayed"] = row["a_step"]["replayed"]
    return kept


def measure_all(arguments, cores):
    """({strategy: {side: {"pairs_per_s": [a run each], "peak_memory_bytes": [...]}}}, strategies that failed)"""
    runs, failed = {}, []
    for number in range(arguments.rounds):
        for strategy in arguments.strategies:
            if strategy not in failed and not measure(arguments, cores, strategy, number, runs):
                failed.append(strategy)
                runs.pop(strategy, None)
        write_json(arguments, cores, runs, failed)  # a run that is cut short leaves its rounds
    return runs, failed


def measure(arguments, cores, strategy, number, runs):
    """Either side once, into `runs`; whether both ran."""
    for side, (command, environment) in commands(arguments, strategy).items():
        more = more_steps(arguments) if side == SIDES[0] else 1
        row = run(f"{side} {strategy}", command, environment, arguments, cores, more)
        if row is None:
            return False
        if row["devices"] != devices(arguments, strategy):
            print(f"{side} {strategy} failed: it ran on {row['devices']} device(s), so no more are visible")
            return False
        sides = runs.setdefault(strategy, {each: {} for each in SIDES})
        for figure, value in figures(arguments, row).items():
            sides[side].setdefault(figure, []).append(value)
        print(f"round {number + 1}/{arguments.rounds} {strategy}, {side}: {row['pairs_per_s']:.3f} pairs/s, "
              f"{row['peak_memory_bytes'] / 2**20:.0f} MiB", flush=True)
    return True


def median(sides, side):
    return statistics.median(sides[side]["pairs_per_s"])


def replayed_line(runs):
    """Whose steps of ours a GPU replays as graphs: `none`'s are what speed-ups are over."""
    kinds = {"replayed as graphs": [], "launched op by op": []}
    for strategy, sides in runs.items():
        kinds["replayed as graphs" if max(sides[SIDES[0]]["replayed"]) > 0 else "launched op by op"].append(strategy)
    return "ringlet's steps: " + "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)


def print_table(arguments, runs, cores):
    place = "GPUs" if arguments.device != "cpu" else f"{arguments.threads} thread(s) a device on core(s) {cores}"
    peak = "peak_memory_bytes" if arguments.device == "cpu" else "peak_device_bytes"
    of = "a process" if arguments.device == "cpu" else "the first GPU"
    options = "".join(f"{word} " for word in forwarded(arguments))
    print(f"\n{arguments.model} {arguments.dtype}, batch {arguments.batch} a device, {place}, {options}"
          f"{arguments.rounds} rounds of {arguments.steps} steps: median (min-max)\n")
    print("| strategy | devices | ringlet pairs/s | Sentence Transformers pairs/s | ringlet is faster by "
          f"| speed-up of ringlet | of theirs | peak MiB of {of}, ringlet | theirs |\n" + "|---" * 9 + "|")
    for strategy, sides in runs.items():
        ours, theirs = (sides[side]["pairs_per_s"] for side in SIDES)
        ratio = spread([a / b for a, b in zip(ours, theirs)], 2)
        ups = [f"{median(sides, side) / median(runs['none'], side):.2f}" if "none" in runs else "-" for side in SIDES]
        peaks = [f"{max(sides[side][peak]) / 2**20:.0f}" for side in SIDES]
        print("| " + " | ".join([strategy, str(devices(arguments, strategy)), spread(ours, 3), spread(theirs, 3),
                                 ratio + "x", *ups, *peaks]) + " |")
    if arguments.device != "cpu":
        print("\n" + replayed_line(runs))


def main():
    arguments = parse()
    cores = None
    if arguments.device == "cpu":
        cores = arguments.cores or ",".join(str(core) for core in range(arguments.devices * arguments.threads))
    runs, failed = measure_all(arguments, cores)
    if runs:
        print_table(arguments, runs, cores)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
