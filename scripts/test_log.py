"""Reads what tests printed.

  test_log.py count testlog.json      prints "PASSED FAILED SKIPPED" of what `meson test` ran
  test_log.py failures LOG...         prints the cases that failed, of testlog.json or plain output
  test_log.py table testlog.json      prints a row for each test, with the reasons of what was skipped
  test_log.py skips testlog.json      prints "NAME<tab>REASON" of each skipped test and case
  test_log.py unlisted SKIPS LIST     prints SKIPS by reason; exit code 1 if LIST has not all of them
  test_log.py slowest FILE...         prints the slowest tests of copies of testlog.json, and the slowest
                                      steps of builds (.ninja_log)

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


def skips(test):
    """Pairs of a name and a reason; a skipped program prints its reason last."""
    if test["result"] == "SKIP":
        lines = (test.get("stdout", "") + test.get("stderr", "")).strip().splitlines() or ["no reason given"]
        return [(test["name"].split(" / ")[-1], lines[-1].removeprefix("skipped: "))]
    return skipped_cases(test)


def unlisted(path, list_path):
    """The skips of a file, by reason; whether a reason is not listed as a regular expression."""
    with open(list_path, encoding="utf-8") as file:
        listed = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    reasons = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            name, reason = line.rstrip("\n").split("\t", 1)
            reasons.setdefault(reason, {})[name] = None  # ordered, each once
    new = [reason for reason in reasons if not any(re.fullmatch(one, reason) for one in listed)]
    for reason, names in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        print(f"skipped{', not listed' if reason in new else ''}: {reason}: {', '.join(list(names)[:3])}{more}")
    return bool(new)


def print_slowest(paths):
    tests, steps = [], {}
    for path in paths:
        if path.endswith(".ran"):
            tests += [(test["duration"], test["name"].split(" / ")[-1]) for test in tests_of(path, True)]
            continue
        with open(path, encoding="utf-8") as log:
            for start, end, _, output, _ in (line.split("\t") for line in log if not line.startswith("#")):
                steps[path, start, end] = output
    times = sorted(((int(end) - int(start)) / 1000, f"{path.split('/')[0]}/{output}")
                   for (path, start, end), output in steps.items())
    for title, rows in ("tests", sorted(tests)), ("build steps", times):
        print(f"slowest {title}:")
        for seconds, name in rows[:-11:-1]:
            print(f"{seconds:8.1f} s  {name}")


def print_table(tests):
    for test in sorted(tests, key=lambda test: test["name"]):
        passed, failed, skipped = count(test)
        print(f"{test['name'].split(' / ')[-1]:44} {passed:4} passed {failed:3} failed {skipped:3} skipped "
              f"{test['duration']:6.0f} s")
        for name, reason in skipped_cases(test):
            print(f"    skipped: {name}: {reason}")


def tests_of(path, is_json=False):
    with open(path, encoding="utf-8", errors="replace") as log:
        if is_json or path.endswith(".json"):
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
    if command == "unlisted":
        sys.exit(unlisted(*paths))
    if command == "slowest":
        print_slowest(paths)
        return
    tests = [test for path in paths for test in tests_of(path)]
    if command == "count":
        print(*(sum(column) for column in zip(*map(count, tests))))
        return
    if command == "skips":
        for test in tests:
            for name, reason in skips(test):
                print(f"{name}\t{reason}")
        return
    if command == "table":
        print_table(tests)
        return
    for test in tests:
        if test["result"] not in ("OK", "SKIP"):
            print(f"-- {test['name']}: {test['result']}", *failures(test), sep="\n")


main()
