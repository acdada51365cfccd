"""The table of training steps on a CPU: every model, dtype and number of threads, by compare_throughput.py.

usage: python bench/peers/step_table.py --throughput build/bench/throughput \\
           --python torch1.13:tuned=/usr/bin/python3 --python torch2.15:both=PYTHON --json FILE
Takes about 45 minutes on two cores of a Zen 4; --models, --dtypes and --threads choose rows. Rows that FILE already
has stay; rows run again replace theirs.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

from compare_throughput import HERE, spread


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--throughput", required=True, metavar="PROGRAM")
    parser.add_argument("--python", action="append", required=True, metavar="NAME[:VARIANT]=PATH")
    parser.add_argument("--models", nargs="+", default=["mpnet-base", "minilm-l6"])
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--precision", default="highest", help="of ringlet's f32 products")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", help="for taskset (default: the first ones)")
    parser.add_argument("--json", required=True, type=pathlib.Path, metavar="FILE")
    return parser.parse_args()


def compare(arguments, model, dtype, threads):
    ours = [arguments.throughput, "--strategy", "none", "--model", model, "--dtype", dtype, "--rounds", "1",
            "--matmul-precision", arguments.precision, "--threads-per-device", str(threads)]
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.json"
        command = [sys.executable, str(HERE / "compare_throughput.py"), "--model", model, "--dtype", dtype,
                   "--rounds", str(arguments.rounds), "--steps", "1" if model.endswith("base") else "3",
                   "--threads", str(threads), "--padded", "--ours", shlex.join(ours), "--json", str(result)]
        for python in arguments.python:
            command += ["--python", python]
        if arguments.cores:
            command += ["--cores", arguments.cores]
        subprocess.run(command, check=True, timeout=3600)
        return {"precision": arguments.precision, **json.loads(result.read_text())}


def line(result):
    settings, runs = result["settings"], result["runs"]
    peers = [name for name in runs if not name.startswith("ours")]
    cells = [settings["model"], f"{settings['dtype']} {result['precision']}", str(settings["threads"]),
             spread(runs["ours"]["pairs_per_s"], 2)]
    for own in ("ours", "ours padded"):
        cells += [spread(runs[name][f"{own}_faster_by"], 2) + "x" if own in runs else "-" for name in peers]
    cells.append(", ".join(f"{max(runs[name]['peak_memory_bytes']) / 2**20:.0f}" for name in ["ours", *peers]))
    return "| " + " | ".join(cells) + " |"


def row_of(result):
    return [result["settings"][key] for key in ("model", "dtype", "threads")] + [result["precision"]]


def main():
    arguments = parse()
    results = json.loads(arguments.json.read_text()) if arguments.json.exists() else []
    for model in arguments.models:
        for dtype in arguments.dtypes:
            for threads in arguments.threads:
                new = compare(arguments, model, dtype, threads)
                results = [old for old in results if row_of(old) != row_of(new)] + [new]
                arguments.json.write_text(json.dumps(results, indent=1))
    peers = [name for name in results[-1]["runs"] if not name.startswith("ours")]
    print("\n| model | dtype | threads | ringlet, pairs/s |" + "".join(f" than {name} |" for name in peers)
          + "".join(f" padded: than {name} |" for name in peers) + f" peak MiB: ringlet, {', '.join(peers)} |")
    print("|---" * (5 + 2 * len(peers)) + "|")
    for result in results:
        print(line(result))


if __name__ == "__main__":
    main()
