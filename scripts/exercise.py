#!/usr/bin/env python3
"""The exercises of a lesson, for scripts/course.sh: writes, checks or solves course/NN.cpp.

    scripts/exercise.py BUILD LESSON --start|--check|--solution

tests/tutorial/exercises/NN.cpp has the solution of each gap between `// gap: TASK` and `// end: CODE`; CODE stands in
its place until the gap is filled. The checks follow the line `// ---- checks`.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXERCISES = ROOT / "tests/tutorial/exercises"
GAP = re.compile(r"^( *)// gap: (.*?)\n(.*?)^ *// end:(.*?)\n", re.DOTALL | re.MULTILINE)
CHECKS = "// ---- checks\n"


def parts(lesson):
    """The text of the exercises, and the checks preceded by their place in the file."""
    path = EXERCISES / f"{lesson}.cpp"
    text, checks = path.read_text(encoding="utf8").split(CHECKS)
    return text, f'#line {text.count(chr(10)) + 2} "{path}"\n{checks}'


def with_gaps(text):
    def gap(found):
        indent, task, _, code = found.groups()
        task = f"{indent}// YOUR CODE: {task}\n"
        return task + (f"{indent}{code.strip()}  // to be replaced\n" if code.strip() else "")
    return GAP.sub(gap, text)


def commands(build, name, most_errors):
    """The commands that compile and link BUILD/course/NAME.cpp, from those of the program of solutions."""
    lines = subprocess.run(["ninja", "-C", build, "-t", "commands", "tests/exercises"], text=True, check=True,
                           capture_output=True).stdout.splitlines()
    compile_one = next(line for line in lines if " -MD " in line and "exercises/01.cpp" in line)
    limit = "-ferror-limit" if "clang" in compile_one else "-fmax-errors"
    compile_one = compile_one.partition(" -MD ")[0] + f" -Wno-error -Wno-unused -fdiagnostics-color=auto {limit}={most_errors}"
    link = re.sub(r" -o tests/exercises( tests/exercises\.p/\S*)*", f" -o course/{name} course/{name}.o", lines[-1])
    return f"{compile_one} -D_GLIBCXX_ASSERTIONS -I{EXERCISES} -c course/{name}.cpp -o course/{name}.o", link


def build_program(build, name, source, most_errors=0):
    """Compiles `source` into the program BUILD/course/NAME; returns the compiler's messages if it fails."""
    folder = pathlib.Path(build, "course")
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.cpp").write_text(source + f'#include "{EXERCISES}/main.cpp"\n', encoding="utf8")
    for command in commands(build, name, most_errors):
        done = subprocess.run(command, shell=True, cwd=build, text=True, capture_output=True, check=False)
        if done.returncode:
            return done.stderr
    return ""


def refuse(message):
    print("course.sh:", message, file=sys.stderr)
    sys.exit(2)


def check(build, lesson, mine):
    if not mine.exists():
        refuse(f"there is no {mine.relative_to(ROOT)}; --start writes it")
    messages = build_program(build, lesson, f'#include "exercise.h"\n#include "{mine}"\n' + parts(lesson)[1], most_errors=3)
    if messages:
        print(messages, f"{mine.relative_to(ROOT)} does not compile; mend the first error first", sep="\n")
        return 1
    try:
        done = subprocess.run([f"{build}/course/{lesson}"], check=False, timeout=60)
    except subprocess.TimeoutExpired:
        print("\n  the program does not end: perhaps a loop without an end, or a collective that a rank does not call")
        return 1
    if done.returncode not in (0, 1):
        print(f"\n  the program ended by signal {-done.returncode}: perhaps an index outside a vector")
    return min(abs(done.returncode), 1)


def main():
    build, lesson, action = sys.argv[1:]
    mine = ROOT / f"course/{lesson}.cpp"
    text = parts(lesson)[0].rstrip("\n") + "\n"
    if action == "--solution":
        print(re.sub(r" *// end:.*\n", "", text).replace("// gap: ", "// "), end="")
    elif action == "--check":
        return check(build, lesson, mine)
    elif mine.exists():
        refuse(f"{mine.relative_to(ROOT)} exists; remove it to start again")
    else:
        mine.parent.mkdir(exist_ok=True)
        mine.write_text(with_gaps(text), encoding="utf8")
        print(f"{mine.relative_to(ROOT)} has the exercises; fill in the gaps, then scripts/course.sh {lesson} --check")
    return 0


if __name__ == "__main__":
    sys.exit(main())
