"""Counts what `meson test` ran: count_tests.py testlog.json prints "PASSED FAILED SKIPPED".

A doctest program counts its test cases; a case that says "skipped:" counts as skipped. Any other
program counts as one test.
"""

import json
import re
import sys

SUMMARY = re.compile(r"\[doctest\] test cases:\s*\d+ \|\s*(\d+) passed \|\s*(\d+) failed")
# doctest begins a case's output with its place, "FILE:LINE:", under a ruler.
CASE = re.compile(r"^={20,}\n", re.MULTILINE)


def count(test):
    summary = SUMMARY.search(test.get("stdout", ""))
    if test["result"] == "SKIP":
        return 0, 0, 1
    if summary is None:
        return (1, 0, 0) if test["result"] == "OK" else (0, 1, 0)
    passed, failed = int(summary[1]), int(summary[2])
    if test["result"] != "OK":
        failed = max(failed, 1)  # it passed its cases and died afterwards
    skipped = sum("MESSAGE: skipped:" in case for case in CASE.split(test["stdout"]))
    return passed - skipped, failed, skipped


def main():
    with open(sys.argv[1], encoding="utf-8") as lines:
        counts = [count(json.loads(line)) for line in lines]
    print(*(sum(column) for column in zip(*counts)))


main()
