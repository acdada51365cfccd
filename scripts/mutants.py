#!/usr/bin/env python3
"""Mutants of cuda/, comm/ and autograd/ on the emulated GPU: mutants.py BUILD [OPTIONS].

Takes each barrier, release, acquire, bounds test, wait and gated call out in turn, recompiles the objects that it
is in and runs the emulated programs in BUILD (`ninja -C BUILD emulated` made them) whose kernels reach its
line, until a test fails. Results are appended to a file of BUILD/mutants: a later run continues with those that lack
one. --report prints the table. tests/emulated/survivors.txt states the reasons of survivors."""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

from mutant_build import Builder, failed_first
from mutant_list import KINDS, all_mutants

NEAR = 3  # lines
MOST_TESTS = 6  # that a survivor has passed
COVER_LIMIT = 300  # seconds of a source file's tests
JOBS = 2
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Host code has no coverage by kernels: the tests of what waits in files with these names, the first that fits.
# "host:": in the program without the emulated GPU, where a stand-in for NCCL runs.
HOST_TESTS = {
    "comm/transports/nccl": ["host:comm/nccl"],
    "comm/group_capture": ["host:comm/nccl", "comm/device"],
    "cuda/peer_ranks": ["cuda/all_reduce_device", "comm/device"],
    "autograd/": ["autograd/side_branch"],
    "cuda/stream": ["core/host_copy", "core/tensor", "core/graph", "core/stream", "cuda/all_reduce_device"],
    "cuda/": ["core/host_copy", "core/tensor", "core/graph", "core/stream", "cuda/memory_device", "train/step/step_graphs"],
    "comm/": ["comm/device", "comm/group", "comm/direct", "comm/ring"],
}
OF_SEVERAL_GPUS = ("all_reduce_device",)


def host_tests(path):
    return next(tests for prefix, tests in HOST_TESTS.items() if path.startswith(prefix))


def environment(exact, more):
    """`exact`: each tensor in an allocation of its own, so that reads beyond it are faults."""
    values = {name: value for name, value in os.environ.items()
              if name not in ("RINGLET_EMULATED_REPORT", "RINGLET_CUDA_EXACT")}
    return {**values, "RINGLET_NUM_THREADS": "2", **({"RINGLET_CUDA_EXACT": "1"} if exact else {}), **more}


def run_tests(program, source, limit, exact=False, **more):
    """The exit code (124: the limit), the output and the seconds of the tests in one source file."""
    begin = time.monotonic()
    if source in OF_SEVERAL_GPUS:
        more = {"RINGLET_EMULATED_DEVICES": "4", **more}
    device = ["--device", "emulated:1"] if os.path.basename(program).endswith("_emulated") else []
    try:
        done = subprocess.run([program, *device, f"--source-file=*/{source}.cpp"], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, errors="replace", timeout=limit, env=environment(exact, more))
        return done.returncode, done.stdout, time.monotonic() - begin
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace"), time.monotonic() - begin


def cover(build, folder):
    """Which lines of cuda/ the tests of each source file reach, by kernels' own .cu files."""
    path, report = f"{folder}/coverage.json", f"{folder}/report.json"
    known = json.load(open(path, encoding="utf8")) if os.path.exists(path) else {}
    for program in [*build.programs(), "host:comm"]:
        for source in build.sources(program):
            key = f"{program}/{source}"
            if key in known:
                continue
            if os.path.exists(report):
                os.remove(report)
            for exact in (True, False):  # captures are refused with exact allocations
                code, _, seconds = run_tests(build.program(program), source, COVER_LIMIT, exact,
                                             RINGLET_EMULATED_REPORT=report)
                if code == 0:
                    break
            lines = build.read_lines(report) if os.path.exists(report) else {}
            known[key] = {"code": code, "seconds": seconds, "exact": exact, "lines": lines}
            print(f"{key}: exit code {code}, {seconds:.1f} s, {sum(map(len, lines.values()))} lines", flush=True)
            with open(path, "w", encoding="utf8") as file:
                json.dump(known, file)
    return {key: found for key, found in known.items() if found["code"] == 0}


def tests_of(mutant, coverage):
    """(test, unit) pairs that reach the mutant, the fastest first. The unit is a .cu or .cpp file."""
    if mutant.path.endswith(".cpp") or mutant.path.startswith(("autograd/", "comm/")):
        return [(test, mutant.path) for test in host_tests(mutant.path) if test in coverage]
    # A call that is inlined has no instruction at its own line: then the file's other lines count.
    near = {f"{mutant.path}:{mutant.line + offset}" for offset in range(-NEAR, NEAR + 1)}
    tests = [(data["seconds"], test, unit, set(lines)) for test, data in coverage.items()
             for unit, lines in data["lines"].items()]
    found = [entry for entry in tests if near & entry[3]] or [
        entry for entry in tests if any(line.startswith(f"{mutant.path}:") for line in entry[3])]
    return [(test, unit) for _, test, unit, _ in sorted(found, key=lambda entry: entry[:3])]


def judge(build, mutant, coverage):
    """The state of one mutant: killed, survived, same code, not compiled or not reached."""
    tests = tests_of(mutant, coverage)
    if not tests:
        return {"status": "not reached"}
    objects, compiled, tried = {}, 0, 0
    for test, unit in tests:
        if tried == MOST_TESTS:
            break
        if unit not in objects:
            objects[unit] = build.compile(mutant, unit)
            compiled += objects[unit] not in (None, "same")
        if objects[unit] is None:
            return {"status": "not compiled", "by": unit}
        if objects[unit] == "same":
            continue
        tried += 1
        on_device = unit.endswith(".cu")
        name, source = test.split("/", 1)
        program = build.link(mutant, name, unit, objects[unit])
        code, output, seconds = run_tests(program, source, min(300, 20 + 8 * coverage[test]["seconds"]),
                                          on_device and coverage[test]["exact"],
                                          **({} if on_device else {"RINGLET_EMULATED_DEVICES": "4"}))
        if code != 0:
            return {"status": "killed", "by": test, "evidence": failed_first(code, output), "seconds": round(seconds, 1)}
    return {"status": "survived" if compiled else "same code", "tests": tried}


def read_state(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf8") as file:
        return {entry["key"]: entry for entry in map(json.loads, file)}


def reasons():
    """Of survivors: "PATH | LINE'S TEXT | REASON" by line."""
    with open(f"{ROOT}/tests/emulated/survivors.txt", encoding="utf8") as file:
        rows = [line.rstrip("\n").split(" | ") for line in file if line.strip() and not line.startswith("#")]
    return {(row[0], row[1]): row[2] for row in rows}


def report(mutants, state):
    known = reasons()
    print(f"{'kind':14} {'mutants':>7} {'killed':>7} {'survived':>8} {'same code':>9} {'not reached':>11} {'not run':>7}")
    for kind in KINDS:
        rows = [state.get(mutant.key, {"status": "not run"})["status"] for mutant in mutants if mutant.kind == kind]
        print(f"{kind:14} {len(rows):7} {rows.count('killed'):7} {rows.count('survived'):8} {rows.count('same code'):9} "
              f"{rows.count('not reached') + rows.count('not compiled'):11} {rows.count('not run'):7}")
    unexplained = 0
    for mutant in mutants:
        found = state.get(mutant.key)
        if not found or found["status"] in ("killed", "same code"):
            continue
        reason = known.get((mutant.path, mutant.text), "")
        unexplained += not reason
        print(f"\n{found['status']}: {mutant.path}:{mutant.line}: {mutant.text}\n  {reason or 'no reason is stated'}")
    return 1 if unexplained else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--only", default="", help="regular expression: PATH:LINE of the mutants to run")
    parser.add_argument("--again", action="store_true", help="run survivors once more")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    folder = os.path.abspath(f"{options.build}/mutants")
    os.makedirs(folder, exist_ok=True)
    state_path, mutants = f"{folder}/state.jsonl", all_mutants(ROOT)
    state = read_state(state_path)
    if options.report:
        return report(mutants, state)
    build = Builder(ROOT, os.path.abspath(options.build), folder)
    coverage = cover(build, folder)
    left = [mutant for mutant in mutants if re.search(options.only, f"{mutant.path}:{mutant.line}")
            and (mutant.key not in state or (options.again and state[mutant.key]["status"] != "killed"))]

    def run(mutant):
        found = {"key": mutant.key, "kind": mutant.kind, "place": f"{mutant.path}:{mutant.line}",
                 **judge(build, mutant, coverage)}
        build.clean(mutant)
        with open(state_path, "a", encoding="utf8") as file:
            file.write(json.dumps(found) + "\n")
        print(f"{found['status']:12} {mutant.kind:13} {found['place']}: {found.get('evidence', '')}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(run, left))
    return report(mutants, read_state(state_path))


if __name__ == "__main__":
    sys.exit(main())
