"""The goals of a GPU (bench/results/gpu.md) beside the figures that scripts/gpu_check.sh measured."""

import statistics

# (layers, hidden size), for the share of the matrix peak.
SIZES = {"mpnet-base": (12, 768), "bert-base": (12, 768), "minilm-l6": (6, 384), "tiny": (2, 128)}


def rows_of(figures, name):
    return figures.get(name, {}).get("rows", [])


def first_row(figures, name):
    return next(iter(rows_of(figures, name)), {})


def share_of_peak(figures, name):
    """In % of large products of bf16: six flops a weight and token, forward and backward, and attention's products."""
    run, row = figures.get(name, {}), first_row(figures, name)
    peak = next((other["ceilings"]["GFLOP/s"]["bf16"] for other in figures.values() if "ceilings" in other), None)
    if peak is None or run.get("model") not in SIZES or row["dtype"] != "bf16":
        return None
    layers, hidden = SIZES[run["model"]]
    flops_per_token = layers * (6 * 12 * hidden * hidden + 12 * row["tokens_per_pair"] / 2 * hidden)
    return 100 * row["real_tokens_per_s"] * flops_per_token / (1e9 * peak)


def step_goals(figures):
    for name, least in (("step_bf16", 12000), ("step_50_tokens", 9000)):
        yield f"{name}: pairs/s", f">= {least}", first_row(figures, name).get("pairs_per_s")
    yield "step_384_tokens: % of the matrix peak", ">= 45", share_of_peak(figures, "step_384_tokens")
    runs = figures.get("peers", {"results": [{"runs": {}}]})["results"][0]["runs"]
    ratios = {name.partition(":")[0]: statistics.median(run["ours_faster_by"]) for name, run in runs.items()
              if "ours_faster_by" in run and name.startswith("Sentence Transformers")}
    yield "times Sentence Transformers, eager, bf16", ">= 4", ratios.get("Sentence Transformers bf16")
    yield "times the best of its variants that ran", ">= 2", min(ratios.values(), default=None)
    step = first_row(figures, "step_bf16")
    idle = step.get("gpu_idle")  # by CUPTI's records
    yield "% of a replayed step that the GPU idles", "<= 12", None if idle is None else 100 * idle
    yield "step_bf16: allocations of a step", "<= 0", step.get("a_step", {}).get("system_allocations")
    for name in ("step_bf16", "step_384_tokens"):
        row = first_row(figures, name)
        over = row["memory"]["held"] / row["memory_on_paper"]["total"] if "memory_on_paper" in row else None
        yield f"{name}: memory over the sum on paper", "<= 1.2", over
    for op in ("adamw_step", "layer_norm", "gelu"):
        # The largest copy is one that no cache holds.
        shares = [100 * row["GB/s"] / figures["bandwidth"]["ceilings"]["copies"][-1]["GB/s"]
                  for row in rows_of(figures, "bandwidth") if row["name"].split("/")[-1] == op]
        yield f"{op}: % of a copy's GB/s", ">= 80", min(shares, default=None)


def attention_times(figures):
    """(length, bias, dropout) -> {program: microseconds of forward and backward}, of programs that can."""
    times = {}
    for name, run in figures.items():
        if name.startswith("attention_") and "ceilings" in run:
            length, dropout = int(name.split("_")[1]), float(name.split("_")[3])
            us = {row["name"]: row["us"] for row in run["rows"]}
            for model, bias in (("mpnet-base", True), ("bert-base", False)):
                both = [us.get(f"{model}/bf16/attention{part}") for part in ("", " backward")]
                if None not in both:
                    times.setdefault((length, bias, dropout), {})["ringlet"] = sum(both)
    for row in rows_of(figures, "attention_pytorch"):
        if None not in (row["forward_us"], row["backward_us"]):
            key = (row["length"], row["bias"], row["dropout"])
            times.setdefault(key, {})[row["backend"]] = row["forward_us"] + row["backward_us"]
    return times


def attention_goals(figures):
    for (length, bias, dropout), times in sorted(attention_times(figures).items()):
        ours = times.pop("ringlet", None)
        if ours is None or not times:
            continue
        where = f"attention at {length}, {'with' if bias else 'no'} bias, dropout {dropout}: ringlet's time over "
        short = length < 100 or bias
        if not short and "flash" in times:
            yield where + "flash's", "<= 1.5", ours / times["flash"]
        yield where + "the best of PyTorch's", "< 1" if short else "<= 2.5", ours / min(times.values())


def in_kernel(figures, ranks):
    """In % of how fast the bytes that must move are copied: the better way, at the largest size, beyond the cache."""
    rows = [row for row in rows_of(figures, f"collectives_{ranks}") if row["op"] == "all_reduce"]
    most = max((row["bytes"] for row in rows), default=0)
    return max((100 * row["of_copy"] for row in rows if row["bytes"] == most and "of_copy" in row
                and row["algorithm"].startswith("in-kernel-")), default=None)


def parallel_goals(figures, checks, said):
    equal = [result for name, result in checks if name.startswith("train/parallel/equality.cpp")]
    yield "strategies to the bits of ranks in turn: files that fail", "<= 0", failed(equal)
    killed = "seconds of a run in which a rank is killed"
    yield killed, "<= 60", said.get(killed)
    for ranks in (2, 4, 8):
        yield f"in-kernel all-reduce of {ranks} ranks: % of the copy bound", ">= 50", in_kernel(figures, ranks)
    for ranks in (2, 4):
        for strategy in ("ddp", "fsdp"):
            hidden = next((100 * row["overlap"] for row in rows_of(figures, f"strategies_{ranks}")
                           if row["strategy"] == strategy and "overlap" in row), None)
            yield f"{strategy}, {ranks} ranks: % of collectives hidden", ">= 50", hidden


def failed(results):
    """How many of those that ran; None if none did."""
    ran = [result for result in results if result != "skipped"]
    return len(ran) - ran.count("passed") if ran else None


def check_goals(slices):
    for what, names in (("tests", ("kernels", "models", "train", "programs", "comm")),
                        ("compute-sanitizer", ("memcheck", "racecheck", "initcheck", "synccheck"))):
        results = [check["result"] for part in slices if part["slice"] in names for check in part["checks"]]
        yield f"{what}: files that fail", "<= 0", failed(results)


def verdict(goal, measured):
    sign, bound = goal.split()
    good = {">=": measured >= float(bound), "<=": measured <= float(bound), "<": measured < float(bound)}[sign]
    return "yes" if good else "no"


def goals_table(figures, slices):
    """Markdown; `slices` are what gpu_report.py keeps of each slice's checks."""
    checks = [check for part in slices for check in part["checks"]]
    said = {what: value for check in checks for what, value in check.get("figures", {}).items()}
    found = [*check_goals(slices)]
    # The goals of steps are mpnet-base's.
    if figures.get("step_bf16", {}).get("model", "mpnet-base") == "mpnet-base":
        found += [*step_goals(figures), *attention_goals(figures)]
    found += parallel_goals(figures, [(check["check"], check["result"]) for check in checks], said)
    text = "| what | goal | measured | met |\n|---|---|---|---|\n"
    for what, goal, measured in found:
        shown = "not measured" if measured is None else f"{measured:.2f}" if measured < 100 else f"{measured:.0f}"
        text += f"| {what} | {goal} | {shown} | {'-' if measured is None else verdict(goal, measured)} |\n"
    return text
