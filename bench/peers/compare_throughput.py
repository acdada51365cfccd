"""Runs ringlet's throughput bench and PyTorch training steps in turn on the same cores, or the same GPU, and prints
the ratios.

usage: python bench/peers/compare_throughput.py --python torch1.13:tuned=/usr/bin/python3 --model mpnet-base \\
           --ours "build/bench/throughput --strategy none --model mpnet-base --threads-per-device 1"
Ours gets `--steps N --json FILE` appended, and with --padded runs once more with `--padded`: the same work as the
peers, which pad. Peers run torch_step.py (or, with the variant
`sentence_transformers`, sentence_transformers_step.py). Variants: plain (as installed), tuned (AVX-512 kernels,
jemalloc with huge pages), sdpa (PyTorch's fused attention), both (tuned and sdpa). "+f32", "+bf16" and "+compile"
behind a variant say so of that peer: NAME:sentence_transformers+bf16+compile=python. Standard library only.
"""

import argparse
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
EXTRAS = {"f32", "bf16", "compile"}
VARIANTS = ("plain", "tuned", "sdpa", "both", "sentence_transformers")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", metavar="COMMAND", help="left out: only the peers run")
    parser.add_argument("--padded", action="store_true", help="run ours padded, too")
    parser.add_argument("--python", action="append", default=[], metavar="NAME[:VARIANT]=PATH", required=True,
                        help="a Python with torch, and the variant to run (plain)")
    parser.add_argument("--model", default="mpnet-base")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--device", default="cpu", help="of the peers: cpu or cuda; ours has its own")
    parser.add_argument("--histogram", help="of lengths, of the peers; ours has its own")
    parser.add_argument("--warmup", type=int, default=1, help="steps that are not timed, on either side")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cores", help="for taskset, such as 0 or 0,1 (default: the first --threads)")
    parser.add_argument("--deadline", type=int, default=3600, metavar="SECONDS", help="of each run")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def peer(arguments, python, variant, extras):
    """(command, environment) of one peer."""
    script = "sentence_transformers_step.py" if variant == "sentence_transformers" else "torch_step.py"
    dtype = next((extra for extra in extras if extra in ("f32", "bf16")), arguments.dtype)
    command = [python, str(HERE / script), "--model", arguments.model, "--batch", str(arguments.batch),
               "--dtype", dtype, "--device", arguments.device, "--threads", str(arguments.threads)]
    if variant in ("sdpa", "both"):
        command += ["--attention", "sdpa"]
    if "compile" in extras:
        command.append("--compile")
    if arguments.histogram:
        command += ["--histogram", arguments.histogram]
    if arguments.device != "cpu":
        return command, {}
    environment = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    if variant in ("tuned", "both"):
        if not os.path.exists(JEMALLOC):
            sys.exit(f"{JEMALLOC}: not found, the variant {variant} needs it (Debian: libjemalloc2)")
        environment.update(ATEN_CPU_CAPABILITY="avx512", LD_PRELOAD=JEMALLOC,
                           MALLOC_CONF="thp:always,metadata_thp:auto,dirty_decay_ms:-1,muzzy_decay_ms:-1")
    return command, environment


def programs(arguments):
    found = {}
    if arguments.ours:
        found["ours"] = (shlex.split(arguments.ours), {})
        if arguments.padded:
            found["ours padded"] = (shlex.split(arguments.ours) + ["--padded"], {})
    for entry in arguments.python:
        name, _, path = entry.partition("=")
        variant, *extras = (name.partition(":")[2] or "plain").split("+")
        if not path or variant not in VARIANTS or not EXTRAS.issuperset(extras):
            sys.exit(f"--python {entry}: expected NAME[:VARIANT]=PATH, variants: {', '.join(VARIANTS)}, "
                     f"each perhaps with +{', +'.join(sorted(EXTRAS))}")
        found[name] = peer(arguments, path, variant, extras)
    return found


def more_steps(arguments):
    """Times the steps of ours: it captures a graph of each shape on a GPU, so few of those timed are to be a first."""
    return 1 if arguments.device == "cpu" else 5


def run(name, command, environment, arguments, cores, more=1):
    """One run of `more` times the steps asked for, on a CPU pinned: what its row of JSON says, and its peak of
    resident bytes as the kernel counts them. None where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        result, log = pathlib.Path(folder) / "result.json", pathlib.Path(folder) / "log"
        line = ["timeout", "--foreground", "-k", "10", str(arguments.deadline)]
        line += ["taskset", "-c", cores] if arguments.device == "cpu" else []
        warmup = min(more * arguments.warmup, max(1000, arguments.warmup))  # ours takes no more than 1000
        line += [*command, "--warmup", str(warmup), "--steps", str(more * arguments.steps),
                 "--json", str(result)]
        with log.open("wb") as out:
            process = subprocess.Popen(line, env={**os.environ, **environment}, stdout=out, stderr=out)
            _, status, usage = os.wait4(process.pid, 0)
        if status != 0 or not result.exists():
            print(f"{name} failed: {shlex.join(line)}\n{log.read_text(errors='replace')[-2000:]}")
            return None
        row = json.loads(result.read_text())["rows"][0]
    return {**row, "peak_memory_bytes": usage.ru_maxrss * 1024}


KEPT = ("pairs_per_s", "real_tokens_per_s", "peak_memory_bytes", "peak_device_bytes", "peak_tensor_bytes")


def keep(into, row):
    for figure in KEPT:
        if figure in row:
            into.setdefault(figure, []).append(row[figure])
    into.setdefault("step_ms", []).append(row["step_ms"]["median"])


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def measured_on():
    """The processor and the commit that a result is of."""
    models = [line.partition(":")[2].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
              if line.startswith("model name")]
    try:
        commit = subprocess.run(["git", "-C", str(HERE), "describe", "--always", "--dirty", "--abbrev=12"],
                                capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # no git
        commit = ""
    commit = os.environ.get("COMMIT") or commit
    return {"machine": platform.platform(), "processor": f"{len(models)} x {models[0]}" if models else "",
            "commit": commit}


def gpu_names():
    """Of all GPUs of this machine, with their drivers."""
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                              capture_output=True, text=True, check=False).stdout.splitlines()
    except OSError:
        return []


def add_ratios(runs):
    """How much faster ours is than each, round by round."""
    for own in [name for name in runs if name.startswith("ours")]:
        for result in runs.values():
            pairs = zip(runs[own]["pairs_per_s"], result["pairs_per_s"])
            result[f"{own}_faster_by"] = [mine / theirs for mine, theirs in pairs]


def write_json(arguments, cores, runs, failed):
    if arguments.json:
        settings = {key: value for key, value in vars(arguments).items()
                    if key not in ("json", "ours", "python", "throughput")}
        if "ours" in arguments:
            settings["ours"] = " ".join(shlex.split(arguments.ours or "")[1:])
        gpus = {} if arguments.device == "cpu" else {"gpus": gpu_names()}
        pathlib.Path(arguments.json).write_text(json.dumps(
            {**measured_on(), **gpus, "cores": cores, "settings": settings, "failed": failed, "runs": runs}, indent=1))


def run_all(arguments, cores):
    """{program: figures of every round}; a program that fails is told and left out from then on."""
    runs, failed = {}, []
    for number in range(arguments.rounds):
        for name, (command, environment) in programs(arguments).items():
            more = more_steps(arguments) if name.startswith("ours") else 1
            row = None if name in failed else run(name, command, environment, arguments, cores, more)
            if row is None:
                failed += [name] if name not in failed else []
                runs.pop(name, None)
                continue
            keep(runs.setdefault(name, {}), row)
            print(f"round {number + 1}/{arguments.rounds} {name}: {row['pairs_per_s']:.3f} pairs/s, "
                  f"{row['peak_memory_bytes'] / 2**20:.0f} MiB", flush=True)
        add_ratios(runs)
        write_json(arguments, cores, runs, failed)  # a run that is cut short leaves its rounds
    return runs, failed


def main():
    arguments = parse()
    cores = arguments.cores or ",".join(str(core) for core in range(arguments.threads))
    runs, failed = run_all(arguments, cores)
    place = f"{arguments.threads} thread(s) on core(s) {cores}" if arguments.device == "cpu" else arguments.device
    print(f"\n{arguments.model} {arguments.dtype}, batch {arguments.batch}, {place}, "
          f"{arguments.rounds} rounds of {arguments.steps} steps: median (min-max)\n")
    ours = [name for name in runs if name.startswith("ours")]
    print("| program | pairs/s |" + "".join(f" {name}: faster by |" for name in ours) + " peak MiB |")
    print("|---" * (3 + len(ours)) + "|")
    for name, result in runs.items():
        ratios = ""
        for own in ours:
            ratios += f" {spread(result[f'{own}_faster_by'], 2)}x |" if own != name else " - |"
        print(f"| {name} | {spread(result['pairs_per_s'], 3)} |{ratios} "
              f"{max(result['peak_memory_bytes']) / 2**20:.0f} |")
    if failed:
        print(f"failed: {', '.join(failed)}")
    if len(runs) < 2:
        sys.exit("nothing is left to compare")


if __name__ == "__main__":
    main()
