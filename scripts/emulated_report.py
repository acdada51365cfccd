#!/usr/bin/env python3
"""Prints the counters of kernels on the emulated GPU: emulated_report.py REPORT [ROOT].

REPORT is the file that programs wrote with RINGLET_EMULATED_REPORT=REPORT set. Kernels of one template
are one row. ROOT: the source folder, for the coverage of its cuda/ by lines."""

import collections
import json
import os
import re
import sys

from kernel_resources import short_names


def read(path):
    with open(path, encoding="utf8") as lines:
        return [json.loads(line) for line in lines]


def ratio(part, whole):
    return f"{part / whole:.2f}" if whole else "-"


def print_table(kernels):
    rows = collections.defaultdict(collections.Counter)
    for kernel, name in zip(kernels, short_names(kernel["kernel"] for kernel in kernels)):
        row = rows[name.partition("<")[0]]
        for key in ("launches", "warps", "lanes"):
            row[key] += kernel[key]
        for space in ("global", "shared"):
            for key, value in kernel[space].items():
                row[f"{space} {key}"] += value
    print(f"{'kernel':34} {'launches':>8} {'warp instr.':>12} {'active':>6} {'MB asked':>9} {'moved/least':>11} {'banks':>5}")
    for name, row in sorted(rows.items(), key=lambda item: -item[1]["warps"]):
        print(f"{name[:34]:34} {row['launches']:8} {row['warps']:12} {ratio(row['lanes'], 32 * row['warps']):>6} "
              f"{row['global bytes'] / 1e6:9.2f} {ratio(row['global moved'], row['global least']):>11} "
              f"{ratio(row['shared moved'], row['shared least']):>5}")


def print_coverage(kernels, root):
    executed, known = set(), set()
    for kernel in kernels:
        for place, count in kernel["lines"].items():
            path, line = place.rsplit(":", 1)
            # A compiler's cache may have taken the path of another folder with the same file.
            ours = re.search(r"/(cuda/[^/]+)$", path)
            if not ours or not os.path.exists(os.path.join(root, ours[1])):
                continue
            known.add((ours[1], int(line)))
            if count:
                executed.add((ours[1], int(line)))
    missing = sorted(known - executed)
    print(f"\n{len(executed)} of {len(known)} lines of cuda/ with device code ran; "
          f"{sum(k['executed'] for k in kernels)} of {sum(k['instructions'] for k in kernels)} PTX instructions")
    for path, line in missing:
        print(f"  not run: {path}:{line}")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    kernels = read(sys.argv[1])
    print_table(kernels)
    if len(sys.argv) == 3:
        print_coverage(kernels, sys.argv[2])


if __name__ == "__main__":
    main()
