#!/usr/bin/env python3
"""Mutants of cuda/ and comm/ on the emulated GPU: mutants.py BUILD [OPTIONS].

Takes each barrier, release, acquire, bounds test and event wait out in turn, recompiles the objects that it
is in and runs the emulated programs in BUILD (`ninja -C BUILD emulated` made them) whose kernels reach its
line, until a test fails. Results are appended to a state file: a later run continues with those that lack one.
--report prints the table. tests/emulated/survivors.txt states the reasons of survivors."""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mutant_build import Builder, failed_first  # noqa: E402
from mutant_list import KINDS, all_mutants  # noqa: E402

NEAR = 3  # lines
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Host code has no coverage by kernels: the tests of what waits in files with these names, the first that fits.
# "host:": in the program without the emulated GPU, where a stand-in for NCCL runs.
HOST_TESTS = {
    "comm/transports/nccl": ["host:comm/nccl"],
    "comm/group_capture": ["host:comm/nccl"],
    "cuda/virtual_ranks": ["cuda/all_reduce_device", "comm/device"],
    "cuda/": ["core/host_copy", "core/tensor", "core/graph", "core/stream", "cuda/memory_device", "train/step_graphs"],
    "comm/": ["comm/device", "comm/group", "comm/direct", "comm/ring"],
}


def host_tests(path):
    return next(tests for prefix, tests in HOST_TESTS.items() if path.startswith(prefix))


def environment(report=None, exact=False, devices=None):
    """`exact`: each tensor in an allocation of its own, so that reads beyond it are faults."""
    values = dict(os.environ, RINGLET_NUM_THREADS="2")
    for name in ("RINGLET_EMULATED_REPORT", "RINGLET_CUDA_EXACT"):
        values.pop(name, None)
    if exact:
        values["RINGLET_CUDA_EXACT"] = "1"
    if devices:
        values["RINGLET_EMULATED_DEVICES"] = str(devices)
    if report:
        values["RINGLET_EMULATED_REPORT"] = report
    return values


def run_tests(program, source, limit, report=None, exact=False, devices=None):
    """The exit code (124: the limit), the output and the seconds of the tests in one source file."""
    begin = time.monotonic()
    device = ["--device", "emulated:1"] if os.path.basename(program).endswith("_emulated") else []
    try:
        done = subprocess.run([program, *device, f"--source-file=*/{source}.cpp"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", timeout=limit,
                              env=environment(report, exact, devices))
        return done.returncode, done.stdout, time.monotonic() - begin
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace"), time.monotonic() - begin


def cover(build, folder, limit, programs, only, say):
    """Which lines of cuda/ the tests of each source file reach, by kernels' own .cu files. `only`: those tests."""
    path = f"{folder}/coverage.json"
    known = json.load(open(path, encoding="utf8")) if os.path.exists(path) else {}
    for program in programs or [*build.programs(), "host:comm"]:
        for source in build.sources(program):
            key = f"{program}/{source}"
            if key in known or (only and key not in only):
                continue
            report = f"{folder}/report.json"
            if os.path.exists(report):
                os.remove(report)
            for exact in (True, False):  # captures are refused with exact allocations
                code, _, seconds = run_tests(build.program(program), source, limit, report, exact)
                if code == 0:
                    break
            lines = build.read_lines(report) if os.path.exists(report) else {}
            known[key] = {"code": code, "seconds": seconds, "exact": exact, "lines": lines}
            say(f"{key}: exit code {code}, {seconds:.1f} s, {sum(map(len, lines.values()))} lines")
            with open(path, "w", encoding="utf8") as file:
                json.dump(known, file)
    return {key: found for key, found in known.items()
            if found["code"] == 0 and (not programs or key.split("/")[0] in programs)}


def tests_of(mutant, coverage):
    """(test, unit) pairs that reach the mutant, the fastest first. The unit is a .cu or .cpp file."""
    if mutant.path.endswith(".cpp") or mutant.path.startswith("comm/"):
        return [(test, mutant.path) for test in host_tests(mutant.path) if test in coverage]
    # A call that is inlined has no instruction at its own line: then the file's other lines count.
    near = {f"{mutant.path}:{mutant.line + offset}" for offset in range(-NEAR, NEAR + 1)}
    tests = [(data["seconds"], test, unit, set(lines)) for test, data in coverage.items()
             for unit, lines in data["lines"].items()]
    found = [entry for entry in tests if near & entry[3]] or [
        entry for entry in tests if any(line.startswith(f"{mutant.path}:") for line in entry[3])]
    return [(test, unit) for _, test, unit, _ in sorted(found, key=lambda entry: entry[:3])]


def judge(build, mutant, coverage, most_tests):
    """The state of one mutant: killed, survived, same code, not compiled or not reached."""
    tests = tests_of(mutant, coverage)
    if not tests:
        return {"status": "not reached"}
    objects, compiled, tried = {}, 0, 0
    for test, unit in tests:
        if tried == most_tests:
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
                                          exact=on_device and coverage[test]["exact"],
                                          devices=None if on_device else 4)
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
    parser.add_argument("--folder", help="of the state and the mutants' programs (BUILD/mutants)")
    parser.add_argument("--kind", choices=list(KINDS), action="append")
    parser.add_argument("--only", default="", help="regular expression: PATH:LINE of the mutants to run")
    parser.add_argument("--program", action="append", help="whose tests may kill, for instance core (all in BUILD)")
    parser.add_argument("--again", action="store_true", help="run survivors once more")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most-tests", type=int, default=6, help="that a survivor has passed")
    parser.add_argument("--cover-limit", type=float, default=300, help="seconds of a source file's tests")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no mutant after them")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    folder = os.path.abspath(options.folder or f"{options.build}/mutants")
    os.makedirs(folder, exist_ok=True)
    state_path, begin = f"{folder}/state.jsonl", time.monotonic()
    mutants, state = all_mutants(ROOT), read_state(f"{folder}/state.jsonl")
    if options.report:
        return report(mutants, state)
    build = Builder(ROOT, os.path.abspath(options.build), folder)
    only = sorted({test for tests in HOST_TESTS.values() for test in tests}) if options.kind == ["event wait"] else []
    coverage = cover(build, folder, options.cover_limit, options.program, only, lambda line: print(line, flush=True))
    left = [mutant for mutant in mutants
            if (not options.kind or mutant.kind in options.kind) and re.search(options.only, f"{mutant.path}:{mutant.line}")
            and (mutant.key not in state or (options.again and state[mutant.key]["status"] != "killed"))]

    def run(mutant):
        if time.monotonic() - begin > 60 * options.minutes:
            return
        found = {"key": mutant.key, "kind": mutant.kind, "place": f"{mutant.path}:{mutant.line}",
                 **judge(build, mutant, coverage, options.most_tests)}
        build.clean(mutant)
        with open(state_path, "a", encoding="utf8") as file:
            file.write(json.dumps(found) + "\n")
        print(f"{found['status']:12} {mutant.kind:13} {found['place']}: {found.get('evidence', '')}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, left))
    return report(mutants, read_state(state_path))


if __name__ == "__main__":
    sys.exit(main())
