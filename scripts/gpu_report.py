"""What scripts/gpu_check.sh found and measured, in one JSON and one Markdown file.

  gpu_report.py add RESULTS SLICE NAME CODE SECONDS LOG    keeps one check, RESULTS/SLICE.checks
  gpu_report.py write RESULTS OUT                          writes OUT/gpu_check.json and gpu_check.md

COMMIT and GPU are in the environment. Figures are the files RESULTS/NAME.figures, JSON of the programs that
measured. Checks of another commit or GPU are left out, and their slices named.
"""

import glob
import json
import os
import sys

import gpu_figures

WHY = {"78": "did not run on the GPU that is here: ", "79": "no test ran",
       "124": "ran out of time", "137": "ran out of time",
       "75": "no time left for it in this call: run it again with ONLY"}


def entry_of(name, code, seconds, lines):
    result = {"0": "passed", "75": "skipped", "77": "skipped"}.get(code, "failed")
    entry = {"check": name, "result": result, "code": int(code), "seconds": int(seconds)}
    if result == "skipped" or code in WHY:
        said = lines[-1] if lines and code in ("77", "78") else ""
        entry["reason"] = WHY.get(code, "") + said
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


def add(results, part, name, code, seconds, log):
    path = f"{results}/{part}.checks"
    kept = read(path) or {}
    checks = kept["checks"] if {key: kept.get(key) for key in here()} == here() else []
    checks = [check for check in checks if check["check"] != name]
    lines = open(log, encoding="utf-8", errors="replace").read().splitlines()
    checks.append(entry_of(name, code, seconds, lines))
    save(path, json.dumps({"slice": part, **here(), "checks": checks}, indent=1))
    if name in gpu_figures.PRINTED:
        save(f"{results}/{name}.figures", json.dumps({"printed": lines}))


def table_of(slices):
    text = "| slice | check | result | seconds |\n|---|---|---|---|\n"
    for part in slices:
        for check in part["checks"]:
            why = ": " + check["reason"] if check.get("reason") else ""
            text += f"| {part['slice']} | {check['check']} | {check['result']}{why} | {check['seconds']} |\n"
    return text


def checks_of(slices):
    """What each check ended with, and what those that passed said they measured: figures of goals."""
    checks = [check for part in slices for check in part["checks"]]
    said = {what: value for check in checks for what, value in check.get("figures", {}).items()}
    return {"checks": {check["check"]: check["result"] for check in checks}, "said": said}


def results_of(slices):
    return {part["slice"]: [check["result"] for check in part["checks"]] for part in slices}


def use_of(name, ends):
    """Whether figures of that name are of a check that passed; of one cut short, where rounds are kept one by one."""
    code = ends.get(gpu_figures.CHECKS.get(name, name))
    return "whole" if code == 0 else "cut short" if name in gpu_figures.KEPT_BY_ROUND and code in (75, 124, 137) else None


def write(results, out):
    all_slices = [read(path) for path in sorted(glob.glob(f"{results}/*.checks"))]
    slices = [part for part in all_slices if part and {key: part[key] for key in here()} == here()]
    ends = {check["check"]: check["code"] for part in slices for check in part["checks"]}
    figures = {}
    for path in sorted(glob.glob(f"{results}/*.figures")):
        name = os.path.basename(path).removesuffix(".figures")
        if (use := use_of(name, ends)) and (found := read(path)):
            figures[name] = {**found, "cut_short": True} if use == "cut short" else found
    others = [part["slice"] for part in all_slices if part and part not in slices]
    save(f"{out}/gpu_check.json",
         json.dumps({**here(), "left_out": others, "slices": slices, "figures": figures}, indent=1))
    text = f"Commit {here()['commit']}\n\nGPU: {here()['gpu']}\n\n"
    if others:
        text += f"Of another commit or GPU, so not here: {', '.join(others)}.\n\n"
    save(f"{out}/gpu_check.md", text + gpu_figures.markdown({**figures, **checks_of(slices)}, results_of(slices)) + "## Checks\n\n" + table_of(slices))


if __name__ == "__main__":
    {"add": add, "write": write}[sys.argv[1]](*sys.argv[2:])
