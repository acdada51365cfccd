"""What ptxas says that kernels take: registers, shared memory, spills.

  kernel_resources.py check LOG...                fails where a kernel that a training step runs spills
  kernel_resources.py table LOG... > TABLE.md     a row for each such kernel; the most of all its variants
  kernel_resources.py shared LOG...               the files that have a kernel with shared memory

LOGs are cuda/*.ptxas of a build. Shared memory is what a kernel has without asking; attention and others ask for more
at their launch.
"""

import collections
import os
import re
import subprocess
import sys

# Files with kernels that an encoder's step in f32 or bf16 does not use.
OTHER_FILES = {"convolution", "device_time", "max_pool"}
# Kernels for rows that do not begin or end at 16 bytes; no model here has such rows.
UNALIGNED = re.compile(r"embedding_short_runs<\w+, false>|normalize_in_registers<\w+, \d+, false,")
ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")

Kernel = collections.namedtuple("Kernel", "file name architecture registers shared stack spilled")


def read(path):
    """The kernels of one log, in its order; functions that are no kernels are passed over."""
    file, entry, stack, spilled = os.path.basename(path).removesuffix(".ptxas"), None, 0, 0
    for line in open(path, encoding="utf-8"):
        if found := ENTRY.search(line):
            entry = found.groups()
        elif found := STACK.search(line):
            stack, stores, loads = map(int, found.groups())
            spilled = stores + loads
        elif (found := USED.search(line)) and entry:
            shared = SHARED.search(line)
            yield Kernel(file, *entry, int(found[1]), int(shared[1]) if shared else 0, stack, spilled)
            entry, stack, spilled = None, 0, 0


def short_names(mangled):
    """"void ringlet::cuda::(anonymous namespace)::f<ringlet::bfloat16, 8>(...)" as "f<bfloat16, 8>"."""
    done = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True)
    for name in done.stdout.splitlines():
        name = re.sub(r"\((?:anonymous namespace|int|bool|unsigned int|long)\)", "", name)
        name = re.sub(r"(?:ringlet::cuda::|ringlet::|::)+(?=\w)", lambda m: "" if "ringlet" in m[0] else m[0], name)
        yield re.sub(r"^void ", "", name).lstrip(":").partition("(")[0]


def hot(kernel):
    return (kernel.file not in OTHER_FILES and "double" not in kernel.name
            and not UNALIGNED.search(kernel.name))


def base(kernel):
    return kernel.name.partition("<")[0].rpartition("::")[2]


def table(kernels):
    groups = collections.defaultdict(list)
    for kernel in kernels:
        groups[kernel.architecture, kernel.file, base(kernel)].append(kernel)
    heads = ("file", "kernel", "variants", "registers", "shared memory, bytes", "stack, bytes", "spilled, bytes")
    text = "| " + " | ".join(heads) + " |\n|" + "---|" * len(heads) + "\n"
    for (_, file, name), variants in sorted(groups.items()):
        most = [max(getattr(k, what) for k in variants) for what in ("registers", "shared", "stack", "spilled")]
        text += f"| {file}.cu | {name} | {len(variants)} | " + " | ".join(map(str, most)) + " |\n"
    return text


def main():
    command, *paths = sys.argv[1:]
    if command == "shared":
        print("\n".join(sorted({k.file for path in paths for k in read(path) if k.shared})))
        return
    found = [k for path in paths for k in read(path)]
    names = short_names(k.name for k in found)
    kernels = [k for k in (k._replace(name=name) for k, name in zip(found, names)) if hot(k)]
    if not kernels:
        sys.exit("no kernels: were the logs made by --resource-usage?")
    if command == "table":
        print(table(kernels), end="")
        return
    bad = [k for k in kernels if k.spilled]
    for k in bad:
        print(f"{k.file}.cu: {k.name}: {k.registers} registers, {k.spilled} bytes spilled")
    print(f"{len(kernels)} kernels for {', '.join(sorted({k.architecture for k in kernels}))}, {len(bad)} spill")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
