"""Adds one check of scripts/gpu_check.sh to what is written of it:
gpu_report.py OUT SLICE NAME CODE SECONDS LOG, with COMMIT and DEVICE in the environment.

OUT/gpu_check_SLICE.json has a slice's checks, OUT/gpu_check.md those of all slices as a table.
"""
import glob
import json
import os
import sys

WHY = {"78": "did not run on the GPU that is here: ", "79": "no test ran",
       "124": "ran out of time", "137": "ran out of time"}


def entry_of(name, code, seconds, lines):
    result = {"0": "passed", "77": "skipped"}.get(code, "failed")
    entry = {"check": name, "result": result, "code": int(code), "seconds": int(seconds)}
    if result == "skipped" or code in WHY:
        said = lines[-1] if lines and code in ("77", "78") else ""
        entry["reason"] = WHY.get(code, "") + said
    if result == "failed":
        entry["end"] = lines[-60:]
    elif result == "passed":
        entry["last"] = lines[-3:]
    return entry


def write_table(out, commit, device):
    with open(f"{out}/gpu_check.md", "w") as file:
        file.write(f"Commit {commit}\n\nDevice: {device}\n\n"
                   "| slice | check | result | seconds |\n|---|---|---|---|\n")
        for path in sorted(glob.glob(f"{out}/gpu_check_*.json")):
            part = json.load(open(path))
            for c in part["checks"]:
                why = ": " + c["reason"] if c.get("reason") else ""
                file.write(f"| {part['slice']} | {c['check']} | {c['result']}{why} | {c['seconds']} |\n")


def main():
    out, part, name, code, seconds, log = sys.argv[1:]
    path = f"{out}/gpu_check_{part}.json"
    commit, device = os.environ["COMMIT"], os.environ["DEVICE"]
    checks = json.load(open(path))["checks"] if os.path.exists(path) else []
    checks = [check for check in checks if check["check"] != name]
    lines = open(log, errors="replace").read().splitlines()
    checks.append(entry_of(name, code, seconds, lines))
    with open(path + ".new", "w") as file:
        json.dump({"slice": part, "commit": commit, "device": device, "checks": checks}, file, indent=1)
    os.replace(path + ".new", path)
    write_table(out, commit, device)


main()
