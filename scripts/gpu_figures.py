"""Tables of what scripts/gpu_check.sh measured, beside what it must show (bench/results/gpu.md)."""

# The check that wrote the figures, if its name differs.
CHECKS = {"attention_pytorch": "attention of PyTorch"}
# Checks with complete files after every round.
KEPT_BY_ROUND = ("peers",)

# Checks that print their figures, and the headings of these.
PRINTED = {"products_bf16": "Products of bf16", "products_f32": "Products of f32",
           "products_tf32": "Products of f32 as TF32",
           "scaling_from_step": "Several devices, modelled from this one's step"}

# (layers, hidden size), for the share of the matrix peak.
SIZES = {"mpnet-base": (12, 768), "bert-base": (12, 768), "minilm-l6": (6, 384), "tiny": (2, 128)}


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def head(*cells):
    return row(*cells) + "|" + "---|" * len(cells) + "\n"


def peak_of_products(figures):
    """GFLOP/s of large products of bf16."""
    return next((run["ceilings"]["GFLOP/s"]["bf16"] for run in figures.values() if "ceilings" in run), None)


def copy_rate(run):
    """GB/s of the largest copy, which no cache holds."""
    return run["ceilings"]["copies"][-1]["GB/s"]


def flops_per_token(model, tokens_per_sentence):
    """Of forward and backward: six a weight, and attention's products."""
    layers, hidden = SIZES[model]
    return layers * (6 * 12 * hidden * hidden + 12 * tokens_per_sentence * hidden)


def share_of_peak(run, figures):
    peak = peak_of_products(figures)
    model, first = run["model"], run["rows"][0]
    if peak is None or model not in SIZES or first["dtype"] != "bf16":
        return None
    flops = first["real_tokens_per_s"] * flops_per_token(model, first["tokens_per_pair"] / 2)
    return 100 * flops / (1e9 * peak)


def share_idle(run):
    """In %, as CUPTI's records have it; None where nothing was recorded."""
    share = run["rows"][0].get("gpu_idle") if run else None
    return None if share is None else 100 * share


def over_paper(run):
    first = run["rows"][0] if run else {}
    return first["memory"]["held"] / first["memory_on_paper"]["total"] if "memory_on_paper" in first else None


def shown(value, form):
    return "-" if value is None else format(value, form)


def steps(figures):
    text = head("step", "model", "dtype", "batch", "tokens per pair", "pairs/s", "step ms (min-max)", "real tokens/s",
                "% of the matrix peak", "% idle", "peak MiB of tensors", "memory over the sum on paper",
                "system allocations a step")
    for name, run in figures.items():
        if not name.startswith("step_"):
            continue
        first = run["rows"][0]
        ms = first["step_ms"]
        text += row(name, run["model"], first["dtype"], run["batch_per_device"], f"{first['tokens_per_pair']:.1f}",
                    f"{first['pairs_per_s']:.1f}", f"{ms['median']:.2f} ({ms['min']:.2f}-{ms['max']:.2f})",
                    f"{first['real_tokens_per_s']:.0f}", shown(share_of_peak(run, figures), ".1f"),
                    shown(share_idle(run), ".1f"), f"{first['peak_tensor_bytes'] / 2**20:.0f}",
                    shown(over_paper(run), ".3f"), first["a_step"]["system_allocations"])
    return text


def profile(run):
    first = run["rows"][0]
    text = head("kernel", "calls", "ms", "% of the step", "floor ms", "time / floor")
    for label, sums in sorted(first["kernels"].items(), key=lambda item: -item[1]["ms"]):
        floor = sums["floor_ms"]
        text += row(label, f"{sums['calls']:.0f}", f"{sums['ms']:.3f}",
                    f"{100 * sums['ms'] / first['profiled_step_ms']:.1f}", f"{floor:.3f}",
                    f"{sums['ms'] / floor:.2f}" if floor else "-")
    idle = first["between_kernels_ms"]
    text += row("between kernels", "", f"{idle:.3f}", f"{100 * idle / first['profiled_step_ms']:.1f}", "", "")
    return text + row("the step", "", f"{first['profiled_step_ms']:.3f}", 100, "", "")


def kernels(run):
    text = head("op", "us", "GFLOP/s", "GB/s", "% of the ceiling", "error", "ms of a step")
    for r in run["rows"]:
        text += row(r["name"], f"{r['us']:.2f}", f"{r['GFLOP/s']:.0f}", f"{r['GB/s']:.0f}",
                    f"{r['ceiling_percent']:.0f}", f"{r['error']:.1e}", f"{r['ms_per_step']:.3f}")
    return text


def bandwidth(run):
    copy = copy_rate(run)
    text = f"Copying beyond the cache: {copy:.0f} GB/s.\n\n" + head("op", "MB moved", "GB/s", "% of a copy's")
    for r in run["rows"]:
        text += row(r["name"], f"{r['GB/s'] * r['us'] / 1e3:.0f}", f"{r['GB/s']:.0f}", f"{100 * r['GB/s'] / copy:.0f}")
    return text


def attention(figures):
    """(length, bias, dropout) -> {program: (forward, backward) in microseconds, None where it cannot}."""
    table = {}
    for name, run in figures.items():
        if not name.startswith("attention_") or "ceilings" not in run:
            continue
        length, dropout = int(name.split("_")[1]), float(name.split("_")[3])
        times = {r["name"]: r["us"] for r in run["rows"]}
        for model, bias in (("mpnet-base", True), ("bert-base", False)):
            ours = [times.get(f"{model}/bf16/attention{part}") for part in ("", " backward")]
            table.setdefault((length, bias, dropout), {})["ringlet"] = tuple(ours)
    for r in figures.get("attention_pytorch", {}).get("rows", []):
        key = (r["length"], r["bias"], r["dropout"])
        table.setdefault(key, {})[r["backend"]] = (r["forward_us"], r["backward_us"])
    return table


def attention_table(table):
    programs = ["ringlet", "flash", "efficient", "cudnn", "math"]
    text = head("length", "bias", "dropout", *[f"{p}, us forward + backward" for p in programs])
    for (length, bias, dropout), times in sorted(table.items()):
        cells = ["-" if None in times.get(p, (None,)) else "{:.1f} + {:.1f}".format(*times[p]) for p in programs]
        text += row(length, "yes" if bias else "no", dropout, *cells)
    return text


def median(values):
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def peers(run):
    runs = run["results"][0]["runs"]
    text = head("program", "pairs/s, median of the rounds", "step ms", "ringlet is faster by", "MiB on the device")
    for name, r in runs.items():
        ours = r.get("ours_faster_by")
        device = max(r.get("peak_device_bytes") or r.get("peak_tensor_bytes") or [0])
        text += row(name, f"{median(r['pairs_per_s']):.1f}", f"{median(r['step_ms']):.2f}",
                    "-" if not ours or name == "ours" else f"{median(ours):.2f}x", f"{device / 2**20:.0f}")
    return text


def beginning(figures, start):
    """(name, figures) of those whose names begin so."""
    return [(name, run) for name, run in figures.items() if name.startswith(start)]


def tables(figures):
    """Of throughput alone, and of scripts/bench.sh."""
    return [run for start in ("strategies_", "table_") for _, run in beginning(figures, start)]


def strategies(figures):
    text = head("strategy", "ranks", "ranks are", "ranks that share a GPU", "pairs/s", "step ms (min-max)",
                "exposed ms of collectives", "% of collectives hidden", "MB sent by a rank a step",
                "peak MiB of tensors")
    for run in tables(figures):
        for r in run["rows"]:
            ms = r["step_ms"]
            shared = 1 if r["strategy"] == "none" else run["ranks_per_gpu"]
            hidden = 100 * r["overlap"] if "overlap" in r else None
            text += row(r["strategy"], r["devices"], run.get("ranks", "-"), shared, f"{r['pairs_per_s']:.1f}",
                        f"{ms['median']:.2f} ({ms['min']:.2f}-{ms['max']:.2f})", f"{r['exposed_ms']:.2f}",
                        shown(hidden, ".0f"), f"{r.get('wire_bytes', 0) / 1e6:.0f}",
                        f"{r['peak_tensor_bytes'] / 2**20:.0f}")
    return text


def collectives(figures):
    text = head("op", "ranks", "MiB", "algorithm", "transport", "algbw GB/s", "busbw GB/s", "p50 us", "p99 us",
                "% of the copy bound")
    left_out = {}
    for _, run in beginning(figures, "collectives_"):
        left_out.update(run.get("left_out", {}))
        for r in run["rows"]:
            text += row(r["op"], r["ranks"], f"{r['bytes'] / 2**20:g}", r["algorithm"], r["transport"],
                        f"{r['algbw']:.1f}", f"{r['busbw']:.1f}", f"{r['p50_us']:.1f}", f"{r['p99_us']:.1f}",
                        shown(share_of_copy(r), ".1f"))
    return text + "".join(f"\nNo {name} ring and direct: {why}.\n" for name, why in left_out.items())


def share_of_copy(collective):
    """In % of how fast the bytes that must move are copied; None where no copy was measured."""
    return 100 * collective["of_copy"] if "of_copy" in collective else None


def in_kernel(figures, ranks):
    """The better way's share_of_copy() at the largest size, beyond the cache."""
    rows = [r for r in figures.get(f"collectives_{ranks}", {}).get("rows", []) if r["op"] == "all_reduce"]
    most = max((r["bytes"] for r in rows), default=0)
    shares = [share_of_copy(r) for r in rows if r["bytes"] == most and r["algorithm"].startswith("in-kernel-")]
    return max((share for share in shares if share is not None), default=None)


def goals(figures):
    """(what, goal, measured), None where there is no figure."""
    found = []
    if figures.get("step_bf16", {}).get("model", "mpnet-base") != "mpnet-base":
        return found
    for name, least in (("step_bf16", 12000), ("step_50_tokens", 9000)):
        rows = figures.get(name, {}).get("rows", [{}])
        found.append((f"{name}: pairs/s", f">= {least}", rows[0].get("pairs_per_s")))
    long = figures.get("step_384_tokens")
    found.append(("step_384_tokens: % of the matrix peak", ">= 45", share_of_peak(long, figures) if long else None))
    runs = figures.get("peers", {"results": [{"runs": {}}]})["results"][0]["runs"]
    ratios = {name.partition(":")[0]: median(r["ours_faster_by"]) for name, r in runs.items()
              if "ours_faster_by" in r and name.startswith("Sentence Transformers")}
    found.append(("times Sentence Transformers, eager, bf16", ">= 4", ratios.get("Sentence Transformers bf16")))
    found.append(("times the best of its variants that ran", ">= 2", min(ratios.values(), default=None)))
    found.append(("% of a replayed step that the GPU idles", "<= 12", share_idle(figures.get("step_bf16"))))
    rows = figures.get("step_bf16", {}).get("rows", [{}])
    found.append(("step_bf16: allocations of a step", "<= 0", rows[0].get("a_step", {}).get("system_allocations")))
    for name in ("step_bf16", "step_384_tokens"):
        found.append((f"{name}: memory over the sum on paper", "<= 1.2", over_paper(figures.get(name))))
    rates = {r["name"]: r["GB/s"] for r in figures.get("bandwidth", {}).get("rows", [])}
    for op in ("adamw_step", "layer_norm", "gelu"):
        share = [100 * rate / copy_rate(figures["bandwidth"]) for name, rate in rates.items()
                 if name.split("/")[-1] == op]
        found.append((f"{op}: % of a copy's GB/s", ">= 80", min(share, default=None)))
    return found + attention_goals(attention(figures))


def share_hidden(figures, ranks, strategy):
    for r in figures.get(f"strategies_{ranks}", {}).get("rows", []):
        if r["strategy"] == strategy and "overlap" in r:
            return 100 * r["overlap"]
    return None


def parallel_goals(figures):
    """As goals(), of several ranks."""
    equal = [result for name, result in figures.get("checks", {}).items()
             if name.startswith("train/parallel/equality.cpp") and result != "skipped"]
    killed = "seconds of a run in which a rank is killed"
    found = [("strategies to the bits of ranks in turn: files that fail", "<= 0",
              len(equal) - equal.count("passed") if equal else None),
             (killed, "<= 60", figures.get("said", {}).get(killed))]
    for ranks in (2, 4, 8):
        found.append((f"in-kernel all-reduce of {ranks} ranks: % of the copy bound", ">= 50", in_kernel(figures, ranks)))
    for ranks in (2, 4):
        for strategy in ("ddp", "fsdp"):
            found.append((f"{strategy}, {ranks} ranks: % of collectives hidden", ">= 50",
                          share_hidden(figures, ranks, strategy)))
    return found


def attention_goals(table):
    found = []
    total = {key: {p: sum(t) for p, t in times.items() if None not in t} for key, times in table.items()}
    for (length, bias, dropout), times in sorted(total.items()):
        others = {p: t for p, t in times.items() if p != "ringlet"}
        if "ringlet" not in times or not others:
            continue
        where = f"attention at {length}, {'with' if bias else 'no'} bias, dropout {dropout}: ringlet's time over "
        best = times["ringlet"] / min(others.values())
        if length < 100 or bias:
            found.append((where + "the best of PyTorch's", "< 1", best))
            continue
        if "flash" in others:
            found.append((where + "flash's", "<= 1.5", times["ringlet"] / others["flash"]))
        found.append((where + "the best of PyTorch's", "<= 2.5", best))
    return found


def verdict(goal, measured):
    sign, bound = goal.split()
    good = {">=": measured >= float(bound), "<=": measured <= float(bound), "<": measured < float(bound)}[sign]
    return "yes" if good else "no"


def goals_table(found):
    text = head("what", "goal", "measured", "met")
    for what, goal, measured in found:
        if measured is None:
            text += row(what, goal, "not measured", "-")
        else:
            text += row(what, goal, f"{measured:.2f}" if measured < 100 else f"{measured:.0f}", verdict(goal, measured))
    return text


def check_goals(slices):
    """The same of checks that passed or did not, {slice: [result]}."""
    found = []
    for what, names in (("tests", ("kernels", "models", "train", "programs", "comm")),
                        ("compute-sanitizer", ("memcheck", "racecheck", "initcheck", "synccheck"))):
        results = [result for name in names for result in slices.get(name, [])]
        ran = [result for result in results if result != "skipped"]
        found.append((f"{what}: files that fail", "<= 0", len(ran) - ran.count("passed") if ran else None))
    return found


def markdown(figures, slices):
    parts = []
    if found := check_goals(slices) + goals(figures) + parallel_goals(figures):
        parts.append(("Goals", goals_table(found)))
    if any(name.startswith("step_") for name in figures):
        parts.append(("Steps", steps(figures)))
    for name in ("profile", "profile_384_tokens"):
        if name in figures:
            parts.append((f"Where a step's time goes: {name}", profile(figures[name])))
    if "peers" in figures:
        cut = ", of the rounds there was time for" if figures["peers"].get("cut_short") else ""
        parts.append((f"Beside PyTorch{cut}", peers(figures["peers"])))
    if tables(figures):
        parts.append(("Strategies", strategies(figures)))
    if beginning(figures, "collectives_"):
        parts.append(("Collectives", collectives(figures)))
    if table := attention(figures):
        parts.append(("Attention alone", attention_table(table)))
    if "bandwidth" in figures:
        parts.append(("Bandwidth", bandwidth(figures["bandwidth"])))
    if "kernels" in figures:
        parts.append(("Ops of a step", kernels(figures["kernels"])))
    for name, title in PRINTED.items():
        if name in figures:
            parts.append((title, "```\n" + "\n".join(figures[name]["printed"]) + "\n```\n"))
    return "".join(f"## {title}\n\n{text}\n" for title, text in parts)
