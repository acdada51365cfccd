"""Whether scripts/gpu_check.sh runs every file of tests on the GPU: on_a_gpu.py ROOT.

Not those whose cases are all of the suite "host", nor what kernels share with the host (tests/cuda), but for
what has to be on a device there.
"""

import glob
import os
import re
import subprocess
import sys

SLICES = ["kernels", "models", "train", "programs", "comm", "bench"]


def commands_on_the_gpu(root):
    dry_run = subprocess.run([f"{root}/scripts/gpu_check.sh", *SLICES], env={**os.environ, "DRY_RUN": "1"},
                             capture_output=True, text=True, check=True)
    return [line for line in dry_run.stdout.splitlines() if "--device cuda" in line]


def is_run(file, commands):
    folder = os.path.dirname(file)
    for command in commands:
        program = re.search(r"/tests/(\S+)", command)
        if f"-sf=*{file}" in command.split():
            return True
        whole = program and "-sf=" not in command
        if whole and program[1] in (folder, f"{folder}/{folder}_tests"):
            return True
    return False


def wants_a_device(file, text):
    if "TEST_CASE" not in text or 'TEST_SUITE_BEGIN("host")' in text:
        return False
    return not file.startswith("cuda/") or "default_device()" in text or "on_gpu.h" in text


def is_empty_there(text):
    """A slice that runs such a file would find no test in it."""
    cases = text.count("TEST_CASE")
    return 'TEST_SUITE_BEGIN("host")' not in text and 0 < cases == text.count('test_suite("host")')


def is_open(text):
    """The suite would go on in the next file of a unity build, whose tests would then be left out."""
    return "TEST_CASE" in text and "TEST_SUITE_BEGIN" in text and "TEST_SUITE_END" not in text


root = sys.argv[1]
commands = commands_on_the_gpu(root)
files = {os.path.relpath(path, f"{root}/tests"): open(path, encoding="utf-8").read()
         for path in glob.glob(f"{root}/tests/**/*.cpp", recursive=True)}
wanted = sorted(file for file, text in files.items() if wants_a_device(file, text))
forgotten = [file for file in wanted if not is_run(file, commands)]
print(f"{len(wanted) - len(forgotten)} of {len(wanted)} files are run on a GPU")
for file in forgotten:
    print(f"tests/{file}: no slice of scripts/gpu_check.sh runs it, and it does not begin the suite \"host\"")
empty = sorted(file for file, text in files.items() if is_empty_there(text))
for file in empty:
    print(f"tests/{file}: every case is of the suite \"host\", which the file itself is to begin")
unended = sorted(file for file, text in files.items() if is_open(text))
for file in unended:
    print(f"tests/{file}: begins a suite and does not end it")
sys.exit(1 if forgotten or empty or unended or not wanted else 0)
