"""Reads what tests printed.

  test_log.py count testlog.json      prints "PASSED FAILED SKIPPED" of what `meson test` ran
  test_log.py failures LOG...         prints the cases that failed, of testlog.json or plain output
  test_log.py table testlog.json      prints a row for each test, with the reasons of what was skipped

A doctest program counts its test cases; a case that says "skipped:" counts as skipped. Any other
program counts as one test.
"""

import json
import re
import sys

SUMMARY = re.compile(r"\[doctest\] test cases:\s*\d+ \|\s*(\d+) passed \|\s*(\d+) failed")
# doctest begins a case's output with its source position, "FILE:LINE:", under a ruler.
CASE = re.compile(r"^={20,}\n", re.MULTILINE)
MOST_LINES = 40  # of one case, and of the output outside all cases


def skipped_cases(test):
    """Pairs of a case's name and the reason."""
    cases = [case for case in CASE.split(test.get("stdout", "")) if "MESSAGE: skipped:" in case]
    return [(re.search(r"TEST CASE: +(.*)", case)[1], re.search(r"MESSAGE: skipped: (.*)", case)[1])
            for case in cases]


def count(test):
    summary = SUMMARY.search(test.get("stdout", ""))
    if test["result"] == "SKIP":
        return 0, 0, 1
    if summary is None:
        return (1, 0, 0) if test["result"] == "OK" else (0, 1, 0)
    passed, failed = int(summary[1]), int(summary[2])
    if test["result"] != "OK":
        failed = max(failed, 1)  # it passed its cases and died afterwards
    skipped = len(skipped_cases(test))
    return passed - skipped, failed, skipped


def print_table(tests):
    for test in sorted(tests, key=lambda test: test["name"]):
        passed, failed, skipped = count(test)
        print(f"{test['name'].split(' / ')[-1]:44} {passed:4} passed {failed:3} failed {skipped:3} skipped "
              f"{test['duration']:6.0f} s")
        for name, reason in skipped_cases(test):
            print(f"    skipped: {name}: {reason}")


def tests_of(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        if path.endswith(".json"):
            return [json.loads(line) for line in log]
        return [{"name": path, "result": "FAIL", "stdout": log.read()}]


def shortened(text):
    lines = text.strip().splitlines()
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        lines = lines[:half] + [f"... {len(lines) - MOST_LINES} lines ..."] + lines[-half:]
    return "\n".join(lines)


def failures(test):
    """The cases with an error, and the end of the output: a sanitizer's report comes last."""
    output = test.get("stdout", "")
    cases = [case for case in CASE.split(output) if re.search(r"\b(FATAL )?ERROR:", case)]
    errors = test.get("stderr", "")
    return [shortened(text) for text in cases + [errors or ("" if cases else output)] if text.strip()]


def main():
    command, *paths = sys.argv[1:]
    tests = [test for path in paths for test in tests_of(path)]
    if command == "count":
        print(*(sum(column) for column in zip(*map(count, tests))))
        return
    if command == "table":
        print_table(tests)
        return
    for test in tests:
        if test["result"] not in ("OK", "SKIP"):
            print(f"-- {test['name']}: {test['result']}", *failures(test), sep="\n")


main()
