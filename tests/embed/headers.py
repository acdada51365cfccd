#!/usr/bin/env python3
"""headers.py INCLUDE: every installed header compiles on its own, with installed headers and the
standard library alone; eigen.h also needs Eigen. CXX and CXXFLAGS name the compiler."""
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

# Most time of a compilation is spent on these, so they are compiled once. The compiler then misses
# no include of them: the names after each show that a header uses it.
PRECOMPILED = {
    "algorithm": "all_of|clamp|copy|find|max|min|sort|stable_sort", "array": "array",
    "atomic": "atomic|memory_order_\\w+", "chrono": "chrono", "filesystem": "filesystem",
    "functional": "function", "map": "map|multimap", "memory": "(?:make_)?(?:shared|unique)(?:_ptr)?|weak_ptr",
    "mutex": "mutex|lock_guard|unique_lock|once_flag", "optional": "optional|nullopt", "span": "span",
    "string": "string|u32string|to_string", "thread": "thread|this_thread", "vector": "vector",
}
OPT_IN = "ringlet/core/tensor/eigen.h"  # no other header includes it
EIGEN = subprocess.run(["pkg-config", "--cflags", "eigen3"], capture_output=True, text=True).stdout.split()
COMMAND = shlex.split(os.environ["CXX"] + " " + os.environ.get("CXXFLAGS", "")) + [
    "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", "."] + [
    flag.replace("-I", "-isystem", 1) for flag in EIGEN]


def includes(path):
    text = pathlib.Path(path).read_text()
    return re.findall(r"^#include <([^>]*)>", text, re.M), re.findall(r'^#include "([^"]*)"', text, re.M)


def reached(path, seen):
    """The standard headers that `path` includes, itself or through installed headers."""
    seen.add(path)
    standard, own = includes(path)
    return set(standard).union(*(reached(other, seen) for other in own if other not in seen))


def errors(path, standard):
    text = re.sub(r"//.*", "", pathlib.Path(path).read_text())
    missing = [name for name, uses in PRECOMPILED.items()
               if re.search(rf"\bstd::(?:{uses})\b", text) and name not in reached(path, set())]
    found = [f"{path}: uses <{name}> and does not include it" for name in missing]
    found += [f"{path}: <{name}> is not the standard library's" for name in includes(path)[0]
              if re.search("[./]", name) and (path, name) != (OPT_IN, "Eigen/Core")]
    compiled = subprocess.run(COMMAND + ["-include", standard, "-fsyntax-only", "-x", "c++", "-"], text=True,
                              input=f'#include "{path}"\n', stderr=subprocess.PIPE)
    return found + ([f"{path} does not compile on its own:\n{compiled.stderr}"] if compiled.returncode else [])


def main():
    os.chdir(sys.argv[1])
    headers = ["ringlet.h"] + sorted(map(str, pathlib.Path("ringlet").rglob("*.h")))
    if not EIGEN:
        headers.remove(OPT_IN)
        print(f"skipped without Eigen: {OPT_IN}")
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        standard = folder + "/standard.h"
        pathlib.Path(standard).write_text("".join(f"#include <{name}>\n" for name in PRECOMPILED))
        subprocess.run(COMMAND + ["-x", "c++-header", standard, "-o", standard + ".gch"], check=True)
        found = sum(pool.map(lambda path: errors(path, standard), headers), [])
    print(f"{len(headers)} headers")
    print("\n".join(found))
    sys.exit(bool(found))


main()
