#!/usr/bin/env python3
"""Wrong answers to the exercises: mutants of each solution, which the checks must reject.

    scripts/exercise_mutants.py [--build BUILD] [LESSON...]    a table; exit code 1 with under 95 % rejected

A mutant differs in one operator, constant, pair of arguments or line. All mutants of a lesson are one program.
tests/tutorial/exercises/survivors.txt has the accepted ones that are right answers, each with its reason.
"""
import argparse
import re
import subprocess
import sys

import exercise

OPERATORS = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
             "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+=": "=", "++": "--", "--": "++"}
TOKENS = re.compile(r"(?<=[\w)\]] )(?:%s)(?= )|\+\+|--" % "|".join(map(re.escape, sorted(OPERATORS, key=len, reverse=True))))
CONSTANTS = re.compile(r"(?<![\w.\"])(\d+(?:\.\d+)?)(?![\w.\"])")
ARGUMENTS = re.compile(r"(?<=[(\[{])([^()\[\]{},]+), ([^()\[\]{},]+)(?=[)\]}])")


def of_line(line):
    """Each mutant of a line of code; '' drops it."""
    code = re.sub(r"\s*//.*|/\*.*?\*/", lambda found: " " * len(found[0]), line)
    for found in TOKENS.finditer(code):
        yield line[:found.start()] + OPERATORS[found[0]] + line[found.end():]
    for found in CONSTANTS.finditer(code):
        for other in {"0": ["1"], "1": ["0", "2"]}.get(found[0], ["0", f"{found[0]} + 1"]):
            yield line[:found.start()] + other + line[found.end():]
    for found in ARGUMENTS.finditer(code):
        yield line[:found.start()] + f"{found[2]}, {found[1]}" + line[found.end():]
    if code.rstrip().endswith(";"):
        yield re.sub(r"\S.*;", ";", code.rstrip("\n")) + "\n"


def mutants_of(text):
    """(line number, the line, its mutant, the whole mutated text)."""
    lines = text.splitlines(keepends=True)
    gaps = [range(text.count("\n", 0, gap.start()) + 1, text.count("\n", 0, gap.end()) - 1)
            for gap in exercise.GAP.finditer(text)]
    for number in (number for gap in gaps for number in gap):
        for other in dict.fromkeys(of_line(lines[number])):
            yield number + 1, lines[number].strip(), other.strip(), "".join(lines[:number] + [other] + lines[number + 1:])


def compiled(build, lesson, mutants):
    """The numbers of those that compile, in the program BUILD/course/mutants_LESSON."""
    checks = exercise.parts(lesson)[1]
    includes = sorted(set(re.findall(r"^#include.*\n", mutants[0][3] + checks, re.MULTILINE)))
    alive = list(range(len(mutants)))
    while True:
        source = "".join(includes)
        for i in alive:
            body = re.sub(r"^#(include|line).*", "", mutants[i][3] + checks, flags=re.MULTILINE)
            source += f'namespace mutant_{i}_ {{\n#line 1 "mutant_{i}_"\n{body}\n}}\n'
        messages = exercise.build_program(build, f"mutants_{lesson}", source)
        wrong = {int(found) for found in re.findall(r"^mutant_(\d+)_:\d+:\d+: error", messages, re.MULTILINE)}
        if not messages:
            return alive
        alive = [i for i in alive if i not in wrong]
        if not wrong or not alive:
            sys.exit(messages)


def accepted(build, lesson, i):
    try:
        return subprocess.run(f"ulimit -v 8000000 -c 0; exec {build}/course/mutants_{lesson} mutant_{i}_", shell=True,
                              capture_output=True, timeout=10, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("lessons", nargs="*")
    options = parser.parse_args()
    known = (exercise.EXERCISES / "survivors.txt").read_text(encoding="utf8")
    enough = True
    print("| lesson | mutants | rejected | right answers | other survivors |\n|---|---|---|---|---|")
    for lesson in options.lessons or sorted(path.stem for path in exercise.EXERCISES.glob("[0-9][0-9].cpp")):
        mutants = list(mutants_of(exercise.parts(lesson)[0]))
        alive = compiled(options.build, lesson, mutants)
        survivors = [mutants[i] for i in alive if accepted(options.build, lesson, i)]
        right = [m for m in survivors if f"{lesson}: {m[1]} -> {m[2]}\n" in known]
        others = [m for m in survivors if m not in right]
        rejected = len(alive) - len(survivors)
        enough &= rejected >= 0.95 * (len(alive) - len(right))
        print(f"| {lesson} | {len(alive)} | {rejected} | {len(right)} | {len(others)} |", flush=True)
        for number, line, other, _ in others:
            print(f"  {lesson}.cpp:{number}\n{lesson}: {line} -> {other}", file=sys.stderr)
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
