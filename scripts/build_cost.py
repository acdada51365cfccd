#!/usr/bin/env python3
"""What takes a build's time: build_cost.py [BUILD] prints the slowest steps of its last run, and the headers
whose parsing costs most if each source file is compiled alone. In builds with `unity` 16 files share it."""
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOST = 20  # rows of each table
LEAST_UNITS = 25  # headers of fewer units are not measured


@functools.cache
def includes(path):
    """The headers that a file includes: paths below ROOT, or names of other libraries."""
    if not (ROOT / path).is_file():
        return []
    found = []
    text = (ROOT / path).read_text(errors="replace")
    for mark, name in re.findall(r'^\s*#\s*include\s+(["<])([^">]+)', text, re.M):
        beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
        own = mark == '"' and (ROOT / beside).is_file()
        found.append(beside if own else name.removeprefix("ringlet/"))
    return found


def reached(path):
    seen, todo = set(), [path]
    while todo:
        new = [name for name in includes(todo.pop()) if name not in seen]
        seen.update(new)
        todo += new
    return seen


def seconds(header, build):
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
        name = f"ringlet/{header}" if (ROOT / header).exists() else header
        file.write(f'#include "{name}"\n')
        file.flush()
        before = os.times().children_user
        done = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-w", f"-I{build}/include", file.name],
                              stderr=subprocess.DEVNULL, check=False)
        return os.times().children_user - before if done.returncode == 0 else 0


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    rows = [line.split("\t") for line in (build / ".ninja_log").read_text().splitlines() if not line.startswith("#")]
    steps = {row[3]: (int(row[1]) - int(row[0])) / 1000 for row in rows}
    print(f"{len(steps)} steps")
    for name in sorted(steps, key=steps.get, reverse=True)[:MOST]:
        print(f"{steps[name]:8.1f} s  {name}")
    units = subprocess.check_output(["git", "ls-files", "*.cpp"], cwd=ROOT, text=True).split()
    counts = {}
    for unit in units:
        for header in reached(unit):
            counts[header] = counts.get(header, 0) + 1
    print(f"{len(units)} source files; seconds x files of each header:")
    often = [header for header, count in counts.items() if count >= LEAST_UNITS]
    cost = {header: seconds(header, build) for header in often}  # one after the other: times of children add up
    for header in sorted(often, key=lambda name: cost[name] * counts[name], reverse=True)[:MOST]:
        print(f"{cost[header] * counts[header]:8.1f} s  {cost[header]:.2f} x {counts[header]:4}  {header}")


main()
