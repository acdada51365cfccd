#!/usr/bin/env python3
"""Compares the counters of the kernels of a step, on the emulated GPU, with the committed table.

  emulated_counters.py check PROGRAM TABLE    fails where a kernel got worse: bytes, instructions, conflicts, idle lanes
  emulated_counters.py write PROGRAM TABLE    writes the table anew

PROGRAM is build/tests/emulated/emulated_kernels, TABLE is tests/emulated/counters.tsv. The counts are exact and the same
for every seed: `write` compares two, `check` runs another. They are those of one release of nvcc, which the table names;
with another one `check` exits with code 77, skipped."""

import csv
import os
import re
import subprocess
import sys
import tempfile

# The ops with mpnet-base's width. AdamW on a small model: its counts are proportional to the number of parameters.
RUNS = [
    ["--model", "mpnet-base", "--layers", "1", "--vocabulary", "1000", "--batch", "2", "--dtype", "bf16", "--dtype", "f32",
     "--filter=/(NT|sum_rows|.*layer_norm|attention|mean|cross|axpby|add$|copy|gelu|dropout|clip)|TN, sums qkv|NN qkv"],
    ["--model", "tiny", "--batch", "2", "--dtype", "bf16", "--filter=adamw|squared_norm|clip"],
    ["--model", "mpnet-base", "--layers", "1", "--vocabulary", "1000", "--batch", "1", "--length", "200", "--dtype", "bf16",
     "--filter=attention( backward)?$"],
]
MORE_BYTES, MORE_INSTRUCTIONS, MORE_SHARE = 1.01, 1.03, 0.01
NO_CLASS = {"case", "kernel", "launches", "asked", "moved", "touched", "passes", "least_passes", "lanes"}


def run(program, seed):
    """The rows of all runs, in order."""
    rows = []
    for arguments in RUNS:
        with tempfile.NamedTemporaryFile("r", encoding="utf8") as out:
            done = subprocess.run([program, *arguments, "--device", "cuda", "--counters", out.name],
                                  env=os.environ | {"RINGLET_EMULATED_SEED": str(seed)}, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{program} failed:\n{done.stdout}{done.stderr}")
            tokens = " of 200 tokens" if "--length" in arguments else ""
            rows += [{**row, "case": row["case"] + tokens}
                     for row in csv.DictReader(open(out.name, encoding="utf8"), delimiter="\t")]
    return rows


def nvcc_release():
    text = subprocess.run([os.environ.get("NVCC", "nvcc"), "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release (\S+),", text)[1]


def instructions(row):
    return sum(int(count) for name, count in row.items() if name not in NO_CLASS)


def share(part, whole):
    return part / whole if whole else 0


def idle(row):
    return 1 - share(int(row["lanes"]), 32 * instructions(row))


def conflicts(row):
    return share(int(row["passes"]) - int(row["least_passes"]), int(row["passes"]))


def worse(was, now):
    """A line for each figure of a kernel that got worse."""
    for name in ("asked", "moved", "touched"):
        if int(now[name]) > MORE_BYTES * int(was[name]):
            yield f"bytes {name}: {was[name]} -> {now[name]}"
    if instructions(now) > MORE_INSTRUCTIONS * instructions(was):
        yield f"instructions of warps: {instructions(was)} -> {instructions(now)}"
    for name, of in (("bank conflicts", conflicts), ("idle lanes", idle)):
        if of(now) > of(was) + MORE_SHARE:
            yield f"{name}: {100 * of(was):.1f} % -> {100 * of(now):.1f} %"


def compare(committed, rows):
    key = lambda row: (row["case"], row["kernel"])
    was, now = {key(row): row for row in committed}, {key(row): row for row in rows}
    for at in sorted(was.keys() - now.keys()):
        yield f"{': '.join(at)}: no longer launched"
    for at, row in now.items():
        problems = ["not in the table"] if at not in was else worse(was[at], row)
        yield from (f"{': '.join(at)}: {problem}" for problem in problems)


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("check", "write"):
        sys.exit(__doc__)
    command, program, table = sys.argv[1:]
    release = f"# nvcc {nvcc_release()}\n"
    if command == "check" and open(table, encoding="utf8").readline() != release:
        print(f"skipped: {table} is of another release than {release[2:-1]}")
        sys.exit(77)
    rows = run(program, 1)
    if command == "write":
        if rows != run(program, 7):
            sys.exit("the counts depend on the seed")
        with open(table, "w", encoding="utf8", newline="") as out:
            out.write(release)
            writer = csv.DictWriter(out, rows[0].keys(), delimiter="\t", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        print(f"{len(rows)} kernels of ops")
        return
    with open(table, encoding="utf8") as lines:
        lines.readline()
        problems = list(compare(list(csv.DictReader(lines, delimiter="\t")), rows))
    print("\n".join([*problems, f"{len(rows)} kernels of ops, {len(problems)} figures worse"]))
    if problems:
        sys.exit(f"if this is meant: scripts/emulated_counters.py write {program} {table}")


if __name__ == "__main__":
    main()
