"""What scripts/gpu_check.sh found and measured, in one JSON and one Markdown file.

  gpu_report.py add RESULTS SLICE NAME CODE SECONDS LOG    keeps one check, RESULTS/SLICE.checks
  gpu_report.py write RESULTS OUT                          writes OUT/gpu_check.json and gpu_check.md

COMMIT and GPU are in the environment. Figures are the files RESULTS/NAME.figures, JSON of the programs that
measured; what these printed follows the goals. Checks of another commit or GPU are left out, and their slices named.
"""

import glob
import json
import os
import re
import sys

import gpu_figures

WHY = {"78": "did not run on the GPU that is here: ", "79": "no test ran",
       "124": "ran out of time", "137": "ran out of time",
       "75": "no time left for it in this call: run it again with ONLY"}
# Checks that measure: what they print is kept.
MEASURES = re.compile("(products|kernels|bandwidth|step|versions|scaling|profile|strategies|collectives|table|attention|peers)"
                      r"(_|$| of PyTorch)")
# The check that wrote the figures, if its name differs.
CHECKS = {"attention_pytorch": "attention of PyTorch"}
# Checks with complete files after every round.
KEPT_BY_ROUND = ("peers",)


def entry_of(name, code, seconds, lines):
    result = {"0": "passed", "75": "skipped", "77": "skipped"}.get(code, "failed")
    entry = {"check": name, "result": result, "code": int(code), "seconds": int(seconds)}
    if result == "skipped" or code in WHY:
        said = lines[-1] if lines and code in ("77", "78") else ""
        entry["reason"] = WHY.get(code, "") + said
    if result != "skipped" and MEASURES.match(name):
        entry["printed"] = lines
    if result == "failed":
        entry["end"] = lines[-60:]
    elif result == "passed":
        entry["last"] = lines[-3:]
        if said := [line.partition("MESSAGE: figure: ")[2] for line in lines if "MESSAGE: figure: " in line]:
            entry["figures"] = {what: float(value) for what, value in (line.rsplit(" = ", 1) for line in said)}
        if skips := [line.partition("skipped: ")[2] for line in lines if "MESSAGE: skipped: " in line]:
            entry["reason"] = f"but {len(skips)} cases skipped, the first: {skips[0]}"
    return entry


def save(path, text):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):  # none yet, or its writer was killed
        return None


def here():
    return {"commit": os.environ["COMMIT"], "gpu": os.environ["GPU"]}


def is_here(part):
    return part is not None and here().items() <= part.items()


def add(results, part, name, code, seconds, log):
    path = f"{results}/{part}.checks"
    kept = read(path)
    checks = [check for check in kept["checks"] if check["check"] != name] if is_here(kept) else []
    with open(log, encoding="utf-8", errors="replace") as file:
        checks.append(entry_of(name, code, seconds, file.read().splitlines()))
    save(path, json.dumps({"slice": part, **here(), "checks": checks}, indent=1))


def read_figures(results, checks):
    """Those of checks that passed; of one cut short too, where rounds are kept one by one."""
    codes, figures = {check["check"]: check["code"] for check in checks}, {}
    for path in sorted(glob.glob(f"{results}/*.figures")):
        name = os.path.basename(path).removesuffix(".figures")
        code = codes.get(CHECKS.get(name, name))
        cut_short = name in KEPT_BY_ROUND and code in (75, 124, 137)
        if (code == 0 or cut_short) and (found := read(path)):
            figures[name] = {**found, **({"cut_short": True} if cut_short else {})}
    return figures


def markdown(figures, slices, others):
    text = f"Commit {here()['commit']}\n\nGPU: {here()['gpu']}\n\n"
    if others:
        text += f"Of another commit or GPU, so not here: {', '.join(others)}.\n\n"
    text += "## Goals\n\n" + gpu_figures.goals_table(figures, slices)
    checks = [(part["slice"], check) for part in slices for check in part["checks"]]
    for _, check in checks:
        if "printed" in check:
            cut = ", of the rounds there was time for" if figures.get(check["check"], {}).get("cut_short") else ""
            text += f"\n## {check['check']}{cut}\n\n```\n" + "\n".join(check["printed"]) + "\n```\n"
    text += "\n## Checks\n\n| slice | check | result | seconds |\n|---|---|---|---|\n"
    for part, check in checks:
        why = ": " + check["reason"] if check.get("reason") else ""
        text += f"| {part} | {check['check']} | {check['result']}{why} | {check['seconds']} |\n"
    return text


def write(results, out):
    all_slices = [part for path in sorted(glob.glob(f"{results}/*.checks")) if (part := read(path))]
    slices = [part for part in all_slices if is_here(part)]
    others = [part["slice"] for part in all_slices if not is_here(part)]
    figures = read_figures(results, [check for part in slices for check in part["checks"]])
    save(f"{out}/gpu_check.json",
         json.dumps({**here(), "left_out": others, "slices": slices, "figures": figures}, indent=1))
    save(f"{out}/gpu_check.md", markdown(figures, slices, others))


if __name__ == "__main__":
    {"add": add, "write": write}[sys.argv[1]](*sys.argv[2:])
