"""Random inputs to a built ringlet and to its peers: PyTorch, transformers, Sentence Transformers, pandas, csv and json.

    differential.py --build build --seconds 600 --seed 1
    differential.py --build build --case ops/1/42

A difference prints the command that replays it alone and ends with 1, as does a kind of which all inputs were
refused. Differences and refusals that are meant
are in tables beside the code that makes the inputs, each with its reason.
"""

import argparse
import os
import pathlib
import sys
import tempfile
import time

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error")

import differential_encode
import differential_ops
import differential_readers
import differential_tables
from differential_case import Tally

# For each kind: the function that compares a batch of named cases, the batch size, the share of
# time.
KINDS = {"ops": (differential_ops.batch, 200, 2),
         "folders": (differential_encode.compare_each(differential_encode.folder_case), 4, 5),
         "tokenizers": (differential_encode.compare_each(differential_encode.tokenizer_case), 8, 2),
         "readers": (differential_readers.batch, 8, 1),
         "tables": (differential_tables.batch, 50, 1)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build", help="where ringlet was built, with its tests")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--case", help="one case, as a difference names it")
    parser.add_argument("--keep", type=pathlib.Path, help="where the last case's files are left")
    parser.add_argument("--all", action="store_true", help="print every difference instead of ending with the first")
    options = parser.parse_args()
    options.start = time.monotonic()
    options.ops = options.build / "tests/train/op_program"
    options.ringlet = options.build / "train/cli/ringlet"
    options.tokenize = options.build / "tests/models/tokenize_lines"
    return options


def compare(kind, names, options, tally):
    found = KINDS[kind][0](names, options, tally)
    for name, difference in found.items():
        print(f"{time.monotonic() - options.start:.0f} s, {name}: {difference}\n"
              f"    {sys.executable} {sys.argv[0]} --build {options.build} --case {name}", flush=True)
    tally.differences += found
    return bool(found)


def loop(options, tally):
    """The kind that has had the least of its share of the time is next."""
    spent, at = dict.fromkeys(options.only, 0.0), dict.fromkeys(options.only, 0)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        kind = min(spent, key=lambda kind: spent[kind] / KINDS[kind][2])
        size = KINDS[kind][1]
        names = [f"{kind}/{options.seed}/{at[kind] + i}" for i in range(size)]
        start = time.monotonic()
        if compare(kind, names, options, tally) and not options.all:
            return
        spent[kind] += time.monotonic() - start
        at[kind] += size


def main():
    options, tally = parse(), Tally()
    with tempfile.TemporaryDirectory() as scratch:
        options.scratch = options.keep or pathlib.Path(scratch)
        options.scratch.mkdir(parents=True, exist_ok=True)
        if options.case:
            compare(options.case.split("/")[0], [options.case], options, tally)
        else:
            loop(options, tally)
    tally.print()
    nothing = () if options.case else sorted(tally.nothing())
    for kind in nothing:
        print(f"no input was compared: {kind}")
    print(f"{len(tally.differences)} differences")
    sys.exit(1 if tally.differences or nothing else 0)


if __name__ == "__main__":
    main()
