#!/usr/bin/env python3
"""headers.py INCLUDE [SEED]: every installed header, or an eighth that SEED chooses, compiles on its own,
with installed headers and the standard library alone; eigen.h also needs Eigen. CXX and CXXFLAGS name
the compiler."""
import concurrent.futures
import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import zlib

# Most time of a compilation is spent on these, so they are compiled once. The compiler then misses
# no include of them: the names after each show that a header uses it.
PRECOMPILED = {
    "algorithm": "all_of|clamp|copy|find|max|min|sort|stable_sort", "array": "array",
    "atomic": "atomic|memory_order_\\w+", "chrono": "chrono", "filesystem": "filesystem",
    "functional": "function", "map": "map|multimap", "memory": "(?:make_)?(?:shared|unique)(?:_ptr)?|weak_ptr",
    "mutex": "mutex|lock_guard|unique_lock|once_flag", "optional": "optional|nullopt", "span": "span",
    "string": "string|u32string|to_string", "thread": "thread|this_thread", "vector": "vector",
}
# Likewise, for the headers that include them themselves: the first that a header reaches.
BASES = ["ringlet/train/trainer.h", "ringlet/models/sentence_encoder.h", "ringlet/nn/module.h",
         "ringlet/autograd/node.h", "ringlet/core/tensor/tensor.h"]
OPT_IN = "ringlet/core/tensor/eigen.h"  # no other header includes it
EIGEN = subprocess.run(["pkg-config", "--cflags", "eigen3"], capture_output=True, text=True).stdout.split()
COMMAND = shlex.split(os.environ["CXX"] + " " + os.environ.get("CXXFLAGS", "")) + [
    "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", "."] + [
    flag.replace("-I", "-isystem", 1) for flag in EIGEN]


def includes(path):
    text = pathlib.Path(path).read_text()
    return re.findall(r"^#include <([^>]*)>", text, re.M), re.findall(r'^#include "([^"]*)"', text, re.M)


@functools.cache
def reached(path):
    """The headers that `path` includes, itself or through installed headers."""
    standard, own = includes(path)
    return set(standard).union(own, *(reached(other) for other in own))


def without_way():
    """The installed headers to which neither ringlet.h nor a header named in docs/embed.md leads."""
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/embed.md").read_text()
    named = {"ringlet.h"} | {"ringlet/" + name for name in re.findall(r"`(?:ringlet/)?([a-z_/]+/[a-z_]+\.h)`", page)}
    installed = {"ringlet.h", *map(str, pathlib.Path("ringlet").rglob("*.h"))}
    if named - installed:
        sys.exit(f"docs/embed.md names headers that are not installed: {sorted(named - installed)}")
    return sorted(installed.difference(named, *map(reached, named)))


def base_of(path):
    return next((base for base in BASES if base in reached(path)), "standard.h")


def precompile(text, path):
    pathlib.Path(path).write_text(text)
    subprocess.run(COMMAND + ["-x", "c++-header", path, "-o", path + ".gch"], check=True)


def errors(path, folder):
    text = re.sub(r"//.*", "", pathlib.Path(path).read_text())
    missing = [name for name, uses in PRECOMPILED.items()
               if re.search(rf"\bstd::(?:{uses})\b", text) and name not in reached(path)]
    found = [f"{path}: uses <{name}> and does not include it" for name in missing]
    found += [f"{path}: <{name}> is not the standard library's" for name in includes(path)[0]
              if re.search("[./]", name) and (path, name) != (OPT_IN, "Eigen/Core")]
    base = pathlib.Path(base_of(path)).name
    compiled = subprocess.run(COMMAND + ["-include", f"{folder}/{base}", "-fsyntax-only", "-x", "c++", "-"],
                              text=True, input=f'#include "{path}"\n', stderr=subprocess.PIPE)
    return found + ([f"{path} does not compile on its own:\n{compiled.stderr}"] if compiled.returncode else [])


def main():
    os.chdir(sys.argv[1])
    headers = ["ringlet.h"] + sorted(map(str, pathlib.Path("ringlet").rglob("*.h")))
    if not EIGEN:
        headers.remove(OPT_IN)
        print(f"skipped without Eigen: {OPT_IN}")
    if len(sys.argv) > 2:  # the headers of one program, and a sample
        headers = [path for path in headers if path == "ringlet.h" or zlib.crc32((sys.argv[2] + path).encode()) % 8 == 0]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        standard = "".join(f"#include <{name}>\n" for name in PRECOMPILED)
        precompile(standard, folder + "/standard.h")
        for base in {base_of(path) for path in headers} - {"standard.h"}:
            precompile(f'{standard}#include "{base}"\n', f"{folder}/{pathlib.Path(base).name}")
        found = sum(pool.map(lambda path: errors(path, folder), headers), [])
    found += [f"{path}: installed, but neither ringlet.h nor docs/embed.md leads there" for path in without_way()]
    print(f"{len(headers)} headers")
    print("\n".join(found))
    sys.exit(bool(found))


main()
